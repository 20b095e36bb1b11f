package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// benchCluster has brokers 1 to 6 and partitions of three replicas, 1,000 a topic.
func benchCluster(b *testing.B, partitions int) *world {
	b.Helper()
	w := newWorld(b)
	for id := range int32(6) {
		w.up(id + 1)
	}
	for i := range partitions / 1000 {
		d := CreateTopics(w.img, w.env, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{
			{Name: fmt.Sprintf("topic-%d", i), NumPartitions: 1000, ReplicationFactor: 3},
		}})
		img, _, err := fsm.FoldBatches(w.img, d.Batches, 0) // without the check of every invariant
		if err != nil {
			b.Fatal(err)
		}
		w.img = img
	}
	return w
}

func BenchmarkExpireOneOfSixBrokers(b *testing.B) {
	for _, partitions := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			w := benchCluster(b, partitions)
			w.env.Now = w.env.Now.Add(time.Minute)
			for id := range int32(5) {
				broker, _ := w.img.Broker(id + 1)
				w.liveness.Touch(broker.ID, broker.Epoch, 0, w.env.Now)
			}
			b.ReportAllocs()
			for b.Loop() {
				if d := ExpireSessions(w.img, w.env); len(d.Reply) != 1 {
					b.Fatalf("%d expired", len(d.Reply))
				}
			}
		})
	}
}

func BenchmarkTickWithNobodyExpired(b *testing.B) {
	w := benchCluster(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		ExpireSessions(w.img, w.env)
	}
}

func BenchmarkSteadyHeartbeat(b *testing.B) {
	w := benchCluster(b, 10_000)
	broker, _ := w.img.Broker(1)
	req := &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: broker.Epoch, MetadataOffset: w.img.AppliedOffset()}
	b.ReportAllocs()
	for b.Loop() {
		if NeedsDecision(w.img, req) {
			b.Fatal("needs a decision")
		}
		Heartbeat(w.img, w.env, req)
	}
}

func BenchmarkCreateTopic(b *testing.B) {
	w := benchCluster(b, 10_000)
	req := &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{Name: "new", NumPartitions: 10, ReplicationFactor: 3}}}
	b.ReportAllocs()
	for b.Loop() {
		CreateTopics(w.img, w.env, req)
	}
}

func BenchmarkAlterHundredPartitions(b *testing.B) {
	w := benchCluster(b, 10_000)
	broker, _ := w.img.Broker(1)
	req := &controllerv1.AlterPartitionsRequest{BrokerId: 1, BrokerEpoch: broker.Epoch}
	for id := range w.img.LedBy(1) {
		if len(req.GetPartitions()) == 100 {
			break
		}
		req.Partitions = append(req.Partitions, &controllerv1.AlterPartition{
			TopicId: id.Topic.Bytes(), PartitionId: id.Partition, NewIsr: []*controllerv1.ISRMember{{BrokerId: 1, BrokerEpoch: -1}},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := AlterPartitions(w.img, w.env, req); len(d.Batches[0].GetRecords()) != 100 {
			b.Fatalf("%d records", len(d.Batches[0].GetRecords()))
		}
	}
}
