package quorum

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	gometrics "github.com/hashicorp/go-metrics/compat"
	"github.com/prometheus/client_golang/prometheus"
)

// raftSeriesMax bounds the series that Raft may make: its names are constants, its labels are peers and kinds of RPC.
const raftSeriesMax = 2048

// CollectRaftMetrics sends what Raft and its stores measure to the registry, under their own names with underscores.
// Times are in milliseconds. Raft measures into a global of the process, so it is called once, before a node is opened.
func CollectRaftMetrics(registry prometheus.Registerer) error {
	sink := &raftSink{gauges: map[string]*raftSeries{}, counters: map[string]*raftSeries{}, samples: map[string]*raftSeries{}}
	if err := registry.Register(sink); err != nil {
		return fmt.Errorf("register Raft's metrics: %w", err)
	}
	cfg := gometrics.DefaultConfig("")
	cfg.EnableHostname, cfg.EnableHostnameLabel, cfg.EnableRuntimeMetrics = false, false, false
	if _, err := gometrics.NewGlobal(cfg, sink); err != nil {
		return fmt.Errorf("take Raft's metrics: %w", err)
	}
	return nil
}

// raftSink is where go-metrics writes and Prometheus reads.
type raftSink struct {
	mu       sync.Mutex
	gauges   map[string]*raftSeries // guarded by mu
	counters map[string]*raftSeries // guarded by mu
	samples  map[string]*raftSeries // guarded by mu
}

var (
	_ gometrics.MetricSink = (*raftSink)(nil)
	_ prometheus.Collector = (*raftSink)(nil)
)

// raftSeries is one time series.
type raftSeries struct {
	name   string
	labels map[string]string
	value  float64 // of a gauge or a counter; the sum of samples
	count  uint64  // of samples
}

// update changes a series, which is made when it is first seen.
func (s *raftSink) update(series map[string]*raftSeries, key []string, labels []gometrics.Label, change func(*raftSeries)) {
	var id strings.Builder
	id.WriteString(strings.Join(key, "."))
	for _, l := range labels {
		id.WriteString("\x00" + l.Name + "\x00" + l.Value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := series[id.String()]
	if found == nil {
		if len(series) >= raftSeriesMax {
			return
		}
		found = newRaftSeries(key, labels)
		series[id.String()] = found
	}
	change(found)
}

func newRaftSeries(key []string, labels []gometrics.Label) *raftSeries {
	s := &raftSeries{name: metricName(strings.Join(key, "_")), labels: make(map[string]string, len(labels))}
	for _, l := range labels {
		s.labels[metricName(l.Name)] = l.Value
	}
	return s
}

// metricName replaces what Prometheus does not allow in names.
func metricName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

// SetGauge sets a gauge.
func (s *raftSink) SetGauge(key []string, v float32) { s.SetGaugeWithLabels(key, v, nil) }

// SetGaugeWithLabels sets a gauge.
func (s *raftSink) SetGaugeWithLabels(key []string, v float32, labels []gometrics.Label) {
	s.update(s.gauges, key, labels, func(r *raftSeries) { r.value = float64(v) })
}

// EmitKey is used by nothing here.
func (s *raftSink) EmitKey([]string, float32) {}

// IncrCounter adds to a counter.
func (s *raftSink) IncrCounter(key []string, v float32) { s.IncrCounterWithLabels(key, v, nil) }

// IncrCounterWithLabels adds to a counter.
func (s *raftSink) IncrCounterWithLabels(key []string, v float32, labels []gometrics.Label) {
	s.update(s.counters, key, labels, func(r *raftSeries) { r.value += float64(v) })
}

// AddSample adds to a summary.
func (s *raftSink) AddSample(key []string, v float32) { s.AddSampleWithLabels(key, v, nil) }

// AddSampleWithLabels adds to a summary.
func (s *raftSink) AddSampleWithLabels(key []string, v float32, labels []gometrics.Label) {
	s.update(s.samples, key, labels, func(r *raftSeries) { r.value, r.count = r.value+float64(v), r.count+1 })
}

// Describe says nothing: the series are not known before Raft makes them.
func (s *raftSink) Describe(chan<- *prometheus.Desc) {}

// Collect gives every series as it is now.
func (s *raftSink) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	var all []prometheus.Metric
	for _, r := range s.gauges {
		all = append(all, prometheus.MustNewConstMetric(r.desc(), prometheus.GaugeValue, r.value, r.values()...))
	}
	for _, r := range s.counters {
		all = append(all, prometheus.MustNewConstMetric(r.desc(), prometheus.CounterValue, r.value, r.values()...))
	}
	for _, r := range s.samples {
		all = append(all, prometheus.MustNewConstSummary(r.desc(), r.count, r.value, nil, r.values()...))
	}
	s.mu.Unlock()
	for _, m := range all {
		out <- m
	}
}

func (r *raftSeries) desc() *prometheus.Desc {
	return prometheus.NewDesc(r.name, "See hashicorp/raft.", r.labelNames(), nil)
}

func (r *raftSeries) labelNames() []string { return slices.Sorted(maps.Keys(r.labels)) }

func (r *raftSeries) values() []string {
	var out []string
	for _, name := range r.labelNames() {
		out = append(out, r.labels[name])
	}
	return out
}
