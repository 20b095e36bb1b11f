package brokerd

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skiffmq/skiff/brokerd/lifecycle"
)

// Collector gives the broker's metrics to Prometheus: under Kafka's familiar names where dashboards use them, as the
// JMX exporter writes them, and under skiff_ where they are ours. Each scrape asks Status once.
type Collector struct{ broker *Broker }

// NewCollector makes the collector of a broker.
func NewCollector(b *Broker) *Collector { return &Collector{broker: b} }

// metric is one figure of a Status.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Status) float64
}

func gauge(name, help string, value func(Status) float64) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(Status) int64) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, func(s Status) float64 { return float64(value(s)) }}
}

var metrics = []metric{
	gauge("kafka_server_kafkaserver_brokerstate", "State of the broker as Kafka numbers it: 1 starting, 2 recovery, 3 running, 6 pending controlled shutdown, 7 shutting down.",
		func(s Status) float64 { return stateNumber(s.State) }),
	gauge("kafka_server_replicamanager_partitioncount", "Partitions with a replica here.", func(s Status) float64 { return float64(s.Replicas.Partitions) }),
	gauge("kafka_server_replicamanager_leadercount", "Partitions led here.", func(s Status) float64 { return float64(s.Replicas.Led) }),
	gauge("kafka_server_replicamanager_offlinereplicacount", "Replicas here that serve nothing.", func(s Status) float64 { return float64(s.Replicas.Failed) }),
	gauge("kafka_server_replicamanager_underreplicatedpartitions", "Partitions led here whose ISR is smaller than their replicas.", func(s Status) float64 { return float64(s.Replicas.UnderReplicated) }),
	gauge("kafka_server_replicamanager_underminisrpartitioncount", "Partitions led here whose ISR is smaller than min.insync.replicas.", func(s Status) float64 { return float64(s.Replicas.UnderMinISR) }),
	counter("kafka_server_replicamanager_isrexpands_total", "ISRs that have grown.", func(s Status) int64 { return s.Replicas.ISRExpands }),
	counter("kafka_server_replicamanager_isrshrinks_total", "ISRs that have shrunk.", func(s Status) int64 { return s.Replicas.ISRShrinks }),
	counter("kafka_server_brokertopicmetrics_bytesin_total", "Bytes appended as leader.", func(s Status) int64 { return s.Replicas.BytesIn }),
	counter("kafka_server_brokertopicmetrics_replicationbytesin_total", "Bytes copied as follower.", func(s Status) int64 { return s.Replicas.BytesCopied }),
	counter("kafka_server_brokertopicmetrics_failedproducerequests_total", "Appends that were refused.", func(s Status) int64 { return s.Replicas.AppendErrors }),
	counter("skiff_broker_batches_appended_total", "Record batches appended as leader.", func(s Status) int64 { return s.Replicas.Batches }),
	counter("skiff_broker_truncations_total", "Logs cut to follow a leader.", func(s Status) int64 { return s.Replicas.Truncations }),
	counter("skiff_broker_fetch_failures_total", "Fetches from a leader that failed as a whole.", func(s Status) int64 { return s.Replicas.FetchErrors }),
	gauge("skiff_broker_metadata_applied_offset", "Metadata offset that is applied.", func(s Status) float64 { return float64(s.Applied) }),
	gauge("skiff_broker_controller_epoch", "Controller epoch of the image.", func(s Status) float64 {
		if s.Image == nil {
			return 0
		}
		return float64(s.Image.ControllerEpoch())
	}),
	gauge("skiff_broker_epoch", "Broker epoch of the registration, -1 for none.", func(s Status) float64 { return float64(s.BrokerEpoch) }),
	gauge("skiff_broker_fenced", "1 while the image has the broker fenced.", func(s Status) float64 { return flag(s.Fenced) }),
	gauge("skiff_broker_metadata_frozen", "1 while an entry of the metadata does not fold.", func(s Status) float64 { return flag(s.Frozen != "") }),
	gauge("skiff_broker_metadata_alarm", "1 while the digest of the metadata does not fit.", func(s Status) float64 { return flag(s.Alarm != "") }),
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// stateNumber is Kafka's BrokerState.
func stateNumber(s lifecycle.State) float64 {
	switch s {
	case lifecycle.StateStarting:
		return 1
	case lifecycle.StateRecovery:
		return 2
	case lifecycle.StateRunning:
		return 3
	case lifecycle.StatePendingControlledShutdown:
		return 6
	case lifecycle.StateShuttingDown:
		return 7
	default:
		return 0
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.broker.Status()
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s))
	}
}
