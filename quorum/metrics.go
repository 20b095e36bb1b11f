package quorum

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// errNoLeader is returned when nobody is known to lead.
var errNoLeader = errors.New("no leader is known")

// metrics of a node that are written when something happens.
type metrics struct {
	appendSeconds prometheus.Histogram
	appendBytes   prometheus.Counter
	snapshots     *prometheus.CounterVec
	snapshotTook  prometheus.Histogram
}

// newMetrics registers the node's metrics: those that are written, and those that are read from its status.
func newMetrics(n *Node) (*metrics, error) {
	m := &metrics{
		appendSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skiff_raft_append_seconds", Help: "Time of one append to the raft store, its sync included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		appendBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skiff_raft_append_bytes_total", Help: "Bytes appended to the raft store.",
		}),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skiff_raft_snapshots_total", Help: "Snapshots that this node tried to take, by outcome.",
		}, []string{"outcome"}),
		snapshotTook: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skiff_raft_snapshot_seconds", Help: "Time of one snapshot.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}),
	}
	for _, c := range []prometheus.Collector{m.appendSeconds, m.appendBytes, m.snapshots, m.snapshotTook, newGauges(n), newBrokerMetrics(n)} {
		if err := n.cfg.Registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) appended(took time.Duration, bytes int) {
	m.appendSeconds.Observe(took.Seconds())
	m.appendBytes.Add(float64(bytes))
}

func (m *metrics) snapshotTaken(took time.Duration, err error) {
	outcome := "taken"
	if err != nil {
		outcome = "failed"
	}
	m.snapshots.WithLabelValues(outcome).Inc()
	m.snapshotTook.Observe(took.Seconds())
}
