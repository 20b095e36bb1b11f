package quorum

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// dialBroker connects to a broker's listener for a probe. It is the only thing that a quorum node ever does to a broker.
func (m *member) dialBroker(ctx context.Context, address string) (net.Conn, error) {
	if m.cfg.Dial != nil {
		return m.cfg.Dial(ctx, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// brokerMetrics count what this node found out about brokers, and why it had them fenced. Each label is always there.
type brokerMetrics struct {
	node                   *Node
	probes, fencings, herd *prometheus.Desc
}

func newBrokerMetrics(n *Node) *brokerMetrics {
	return &brokerMetrics{
		node: n,
		probes: prometheus.NewDesc("skiff_broker_probes_total",
			"Connections attempted to brokers' listeners, by result.", []string{"result"}, nil),
		fencings: prometheus.NewDesc("skiff_broker_fencings_total",
			"Brokers that this node, as the active controller, decided to fence, by reason.", []string{"reason"}, nil),
		herd: prometheus.NewDesc("skiff_broker_closings_in_herd_total",
			"Sessions that closed together with too many others, so that no probe decided.", nil, nil),
	}
}

// Describe gives every description.
func (b *brokerMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- b.probes
	out <- b.fencings
	out <- b.herd
}

// Collect reads all of them from one status.
func (b *brokerMetrics) Collect(out chan<- prometheus.Metric) {
	var counts active.Counts
	if m := b.node.member.Load(); m != nil {
		counts = m.loop.Status().Counts
	}
	for r, n := range counts.Probes {
		out <- prometheus.MustNewConstMetric(b.probes, prometheus.CounterValue, float64(n), controller.ProbeResult(r).String())
	}
	for r, n := range counts.Fencings {
		out <- prometheus.MustNewConstMetric(b.fencings, prometheus.CounterValue, float64(n), active.Fencing(r).String())
	}
	out <- prometheus.MustNewConstMetric(b.herd, prometheus.CounterValue, float64(counts.Herds))
}
