package controller

import (
	"syscall"
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// processTime is what this process used of the processors: on a machine that others use too the clock says little.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportCPU(b *testing.B, begin time.Duration) {
	b.Helper()
	b.ReportMetric(float64((processTime(b)-begin).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// BenchmarkLoseBroker decides and folds the loss of a broker that leads 100,000 partitions and follows 200,000 others.
func BenchmarkLoseBroker(b *testing.B) {
	w := benchCluster(b, 600_000)
	w.env.Now = w.env.Now.Add(time.Minute)
	for id := range int32(5) {
		broker, _ := w.img.Broker(id + 1)
		w.liveness.Touch(broker.ID, broker.Epoch, 0, w.env.Now)
	}
	b.Logf("broker 6 leads %d of its %d partitions", w.img.NumLedBy(6), w.img.NumReplicasOf(6))
	begin := processTime(b)
	for b.Loop() {
		d := ExpireSessions(w.img, w.env)
		img, _, err := fsm.FoldBatches(w.img, d.Batches, 0)
		if err != nil || img.NumLedBy(6) != 0 {
			b.Fatal(err)
		}
	}
	reportCPU(b, begin)
}

// BenchmarkElectFromInventories restores 600,000 partitions: six brokers report 300,000 logs each, and every partition
// gets its leader, in runs as the active controller makes them.
func BenchmarkElectFromInventories(b *testing.B) {
	w := benchCluster(b, 600_000)
	born, err := fsm.Rebirth(w.img, fsm.Birth{ClusterID: w.img.ClusterID(), UUID: fsm.UUID{0xaa, 9}})
	if err != nil {
		b.Fatal(err)
	}
	w.img = born
	for id := range int32(6) {
		w.up(id + 1)
	}
	begin := processTime(b)
	for b.Loop() {
		img := w.img
		w.env.Inventories.Reset(w.env.Now)
		for broker := range img.Brokers() {
			d := ReportInventory(img, w.env, fullReport(b, img, broker))
			d.Keep(w.env.Inventories)
		}
		for more := true; more; {
			d := ElectFromInventories(img, w.env)
			if img, _, err = fsm.FoldBatches(img, d.Batches, 0); err != nil {
				b.Fatal(err)
			}
			more = d.Reply
		}
		if img.NumAwaiting() != 0 {
			b.Fatalf("%d partitions have no leader", img.NumAwaiting())
		}
	}
	reportCPU(b, begin)
}

// fullReport has a log of every partition that a broker has a replica of.
func fullReport(b *testing.B, img *fsm.Image, broker *fsm.Broker) *InventoryReport {
	b.Helper()
	r := NewInventoryReport(broker.ID, broker.Epoch, img.NextOffset())
	var part []*controllerv1.ReplicaInventory
	for id := range img.PartitionsOf(broker.ID) {
		part = append(part, &controllerv1.ReplicaInventory{TopicId: id.Topic.Bytes(), PartitionId: id.Partition, LastLeaderEpoch: 3, LogEndOffset: int64(broker.ID)})
	}
	if err := r.Add(part); err != nil {
		b.Fatal(err)
	}
	r.Seal()
	return r
}
