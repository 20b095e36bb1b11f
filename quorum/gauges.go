package quorum

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skiffmq/skiff/fsm"
)

// gauges are read from the node's status at each scrape. Where Kafka has a metric that dashboards use, its name is
// kept as the JMX exporter writes it. Each is always there: what is missing is a 0, never a gap.
type gauges struct {
	node *Node
	all  []gauge
}

// gauge is one value of a status.
type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*Node, Status) float64
}

func newGauges(n *Node) *gauges {
	g := &gauges{node: n}
	const kafka = "kafka_controller_kafkacontroller_"
	g.add("skiff_ready", "1 when the node serves.", func(_ *Node, s Status) float64 { return number(s.Ready) })
	g.add("skiff_raft_leader_known", "1 when a leader is known.", func(_ *Node, s Status) float64 { return number(s.LeaderID >= 0) })
	g.add("skiff_raft_leader", "1 when this node is Raft's leader.", func(_ *Node, s Status) float64 { return number(s.LeaderID == s.NodeID) })
	g.add("skiff_raft_term", "Raft's term.", func(_ *Node, s Status) float64 { return float64(s.Term) })
	g.add("skiff_raft_last_index", "Index of the last entry.", func(_ *Node, s Status) float64 { return float64(s.LastIndex) })
	g.add("skiff_raft_commit_index", "Index of the last committed entry.", func(_ *Node, s Status) float64 { return float64(s.CommitIndex) })
	g.add("skiff_raft_applied_index", "Index of the last entry handed to the fold.", func(_ *Node, s Status) float64 { return float64(s.AppliedIndex) })
	g.add("skiff_raft_snapshot_index", "Index of the last snapshot.", func(_ *Node, s Status) float64 { return float64(s.SnapshotIndex) })
	g.add("skiff_raft_log_bytes_since_snapshot", "Bytes of log since the last snapshot.", func(n *Node, _ Status) float64 {
		return memberValue(n, func(m *member) float64 { return float64(m.snaps.bytes()) })
	})
	g.add("skiff_raft_leader_contact_seconds", "Time since the leader was heard; 0 on the leader, -1 if never.", contactSeconds)
	g.add("skiff_image_fault", "1 when the image is frozen or its digest differs.", func(_ *Node, s Status) float64 { return number(s.Frozen != "") })
	g.add("skiff_lineage_unconfirmed", "1 while a restored lineage refuses its users' changes.",
		imageValue(func(i *fsm.Image) float64 { return number(!i.Confirmed()) }))
	g.add("skiff_partitions_awaiting", "Partitions without a leader until their replicas have reported their logs.",
		imageValue(func(i *fsm.Image) float64 { return float64(i.NumAwaiting()) }))
	g.add("skiff_raft_store_stalled", "1 while an operation of the raft store takes too long.", func(n *Node, _ Status) float64 {
		return memberValue(n, func(m *member) float64 { return number(m.stall.Load() != nil) })
	})
	g.add("skiff_disk_low", "1 while so little of the disk is free that this node should not lead.", func(n *Node, _ Status) float64 {
		return memberValue(n, func(m *member) float64 { return number(m.room.low.Load()) })
	})
	g.addArchive()
	g.count("skiff_entries_dropped_total", "Entries that failed the guard.", func(n *Node, _ Status) float64 {
		return memberValue(n, func(m *member) float64 { return float64(m.machine.dropped.Load()) })
	})
	g.add("skiff_controller_epoch", "Controller epoch of the image.", imageValue(func(i *fsm.Image) float64 { return float64(i.ControllerEpoch()) }))
	g.add(kafka+"activecontrollercount", "1 on the active controller.", func(_ *Node, s Status) float64 { return number(s.Active) })
	g.add(kafka+"lastappliedrecordoffset", "Metadata offset of the image.", imageValue(func(i *fsm.Image) float64 { return float64(i.AppliedOffset()) }))
	g.add(kafka+"globaltopiccount", "Topics.", imageValue(func(i *fsm.Image) float64 { return float64(i.NumTopics()) }))
	g.add(kafka+"globalpartitioncount", "Partitions.", imageValue(func(i *fsm.Image) float64 { return float64(i.NumPartitions()) }))
	g.add(kafka+"offlinepartitionscount", "Partitions without a leader.", imageValue(func(i *fsm.Image) float64 { return float64(i.NumLeaderless()) }))
	g.add(kafka+"preferredreplicaimbalancecount", "Partitions not led by their first replica.", imageValue(func(i *fsm.Image) float64 { return float64(i.NumImbalanced()) }))
	g.add(kafka+"activebrokercount", "Brokers that are not fenced.", imageValue(func(i *fsm.Image) float64 { return float64(i.NumBrokers() - fencedBrokers(i)) }))
	g.add(kafka+"fencedbrokercount", "Brokers that are fenced.", imageValue(func(i *fsm.Image) float64 { return float64(fencedBrokers(i)) }))
	return g
}

func (g *gauges) add(name, help string, read func(*Node, Status) float64) {
	g.all = append(g.all, gauge{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.GaugeValue, read: read})
}

func (g *gauges) count(name, help string, read func(*Node, Status) float64) {
	g.add(name, help, read)
	g.all[len(g.all)-1].kind = prometheus.CounterValue
}

// Describe gives every description.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, one := range g.all {
		out <- one.desc
	}
}

// Collect reads all of them from one status.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	s := g.node.Status()
	for _, one := range g.all {
		out <- prometheus.MustNewConstMetric(one.desc, one.kind, one.read(g.node, s))
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func contactSeconds(_ *Node, s Status) float64 {
	if s.LeaderContactAge < 0 {
		return -1
	}
	return s.LeaderContactAge.Seconds()
}

// memberValue is 0 before the node is initialised.
func memberValue(n *Node, read func(*member) float64) float64 {
	if m := n.member.Load(); m != nil {
		return read(m)
	}
	return 0
}

// imageValue is 0 before there is an image.
func imageValue(read func(*fsm.Image) float64) func(*Node, Status) float64 {
	return func(_ *Node, s Status) float64 {
		if s.Image == nil {
			return 0
		}
		return read(s.Image)
	}
}

func fencedBrokers(img *fsm.Image) (fenced int) {
	for b := range img.Brokers() {
		if b.Fenced {
			fenced++
		}
	}
	return fenced
}
