package client_test

import (
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/client"
	"github.com/skiffmq/skiff/quorum/rpc/rpctest"
)

var recoveredTopic = fsm.UUID{0x70, 1}

// restored is what a quorum begins from after a restore: a topic of two partitions on the brokers 1 and 2.
func restored(t *testing.T) *fsm.Image {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{0xc1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{0x11}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	records := []*metadatav1.Record{{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: "t", TopicId: recoveredTopic.Bytes()}}}}
	for i := range int32(2) {
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
			TopicId: recoveredTopic.Bytes(), PartitionId: i, Replicas: []int32{1, 2}, Leader: fsm.NoLeader, AwaitingInventory: true,
		}}})
	}
	img, _, err = fsm.FoldBatches(img, []*metadatav1.Batch{{Records: records}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	img, err = fsm.Rebirth(img, fsm.Birth{ClusterID: img.ClusterID(), UUID: fsm.UUID{0x12}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func held(partition, epoch int32, end int64) *controllerv1.ReplicaInventory {
	return &controllerv1.ReplicaInventory{TopicId: recoveredTopic.Bytes(), PartitionId: partition, LastLeaderEpoch: epoch, LogEndOffset: end}
}

// unfence has a broker heartbeat until it is in service.
func (b broker) unfence(t *testing.T, c *client.Client) client.Session {
	t.Helper()
	s, err := c.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for fenced := true; fenced; {
		if err := s.Send(&controllerv1.SessionRequest{BrokerId: b.id, BrokerEpoch: b.epoch, MetadataOffset: b.epoch + 10}); err != nil {
			t.Fatal(err)
		}
		resp, err := s.Recv()
		if err != nil || resp.GetError() != nil {
			t.Fatalf("heartbeat: %v %v", resp, err)
		}
		fenced = resp.GetIsFenced()
	}
	return s
}

// report sends what a broker has, as of its registration.
func (b broker) report(t *testing.T, c *client.Client, replicas ...*controllerv1.ReplicaInventory) error {
	t.Helper()
	return c.ReportInventory(within(t, 10*time.Second), b.id, b.epoch, b.epoch+1, replicas)
}

// TestRestoredQuorumElectsFromInventories goes over the wire from the first report to the first change of a user.
func TestRestoredQuorumElectsFromInventories(t *testing.T) {
	bubble(t, rpctest.Options{Image: restored(t)}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b1, b2 := register(t, c, 1), register(t, c, 2)
		defer b1.unfence(t, c).Close()
		defer b2.unfence(t, c).Close()
		if err := b1.report(t, c, held(0, 5, 10), held(1, 5, 10)); err != nil {
			t.Fatal(err)
		}
		list, err := c.ListAwaiting(within(t, time.Minute), &controllerv1.ListAwaitingRequest{})
		if err != nil || list.GetAwaiting() != 2 || len(list.GetMissingBrokers()) != 1 || list.GetMissingBrokers()[0].GetBrokerId() != 2 || list.GetConfirmed() {
			t.Fatal(list, err)
		}
		create := &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{Name: "u", NumPartitions: 1, ReplicationFactor: 1}}}
		if _, err := c.CreateTopics(within(t, time.Minute), create); client.CodeOf(err) != controllerv1.ErrorCode_ERROR_CODE_UNCONFIRMED {
			t.Fatal(err)
		}
		if err := b2.report(t, c, held(0, 5, 11), held(1, 4, 99)); err != nil {
			t.Fatal(err)
		}
		// The report's answer does not wait for the elections; what is asked after it is decided after them or finds them due.
		for list.GetAwaiting() > 0 {
			if list, err = c.ListAwaiting(within(t, time.Minute), &controllerv1.ListAwaitingRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		img := q.Leader().Image()
		for i, want := range []int32{2, 1} {
			if p, _ := img.Partition(fsm.PartitionID{Topic: recoveredTopic, Partition: int32(i)}); p.Leader != want || p.LeaderEpoch <= 5 {
				t.Errorf("partition %d: %s", i, p)
			}
		}
		if _, err := c.ConfirmLineage(within(t, time.Minute), &controllerv1.ConfirmLineageRequest{Lineage: img.Lineage().ID.Proto()}); err != nil {
			t.Fatal(err)
		}
		if resp, err := c.CreateTopics(within(t, time.Minute), create); err != nil || resp.GetTopics()[0].GetError() != nil {
			t.Fatal(resp, err)
		}
	})
}

// TestInventoryGoesInParts reports more than one message holds, strays among it, and has a topic back from them. Another
// controller knows nothing of it.
func TestInventoryGoesInParts(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		defer b.unfence(t, c).Close()
		var replicas []*controllerv1.ReplicaInventory
		for i := range int32(25_000) {
			r := held(i, 1, int64(i))
			if i >= 24_990 { // the last part has the topic
				r = &controllerv1.ReplicaInventory{TopicId: fsm.UUID{0x71}.Bytes(), PartitionId: i - 24_990, LastLeaderEpoch: 1, LogEndOffset: 9,
					Stray: &controllerv1.StrayReplica{TopicName: "gone", NumPartitions: 10, ReplicationFactor: 1, SinceMs: 1}}
			}
			replicas = append(replicas, r)
		}
		if err := b.report(t, c, replicas...); err != nil {
			t.Fatal(err)
		}
		strays, err := c.ListStrays(within(t, time.Minute), &controllerv1.ListStraysRequest{})
		if err != nil || len(strays.GetTopics()) != 1 || len(strays.GetTopics()[0].GetReplicas()) != 10 || len(strays.GetMissingBrokers()) != 0 {
			t.Fatal(strays, err)
		}
		back, err := c.UndeleteTopic(within(t, time.Minute), &controllerv1.UndeleteTopicRequest{Name: "gone"})
		if err != nil || back.GetNumPartitions() != 10 || len(back.GetEmptyPartitions()) != 0 {
			t.Fatal(back, err)
		}
		q.Lead(1)
		if strays, err = c.ListStrays(within(t, time.Minute), &controllerv1.ListStraysRequest{}); err != nil || len(strays.GetTopics()) != 0 || len(strays.GetMissingBrokers()) != 1 {
			t.Fatal(strays, err)
		}
		none, err := c.ElectAwaiting(within(t, time.Minute), &controllerv1.ElectAwaitingRequest{Now: true})
		if err != nil || len(none.GetElections()) != 0 || len(none.GetRefused()) != 10 {
			t.Fatal(none, err)
		}
	})
}

// TestInventoryIsJudged has the reports that must not count.
func TestInventoryIsJudged(t *testing.T) {
	bubble(t, rpctest.Options{Image: restored(t)}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		stale := broker{id: 1, epoch: b.epoch - 1}
		if err := stale.report(t, c); client.CodeOf(err) != controllerv1.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH {
			t.Error(err)
		}
		void := broker{id: 2, epoch: fsm.VoidEpoch}
		if err := void.report(t, c); client.CodeOf(err) != controllerv1.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH {
			t.Error(err)
		}
		if err := c.ReportInventory(within(t, time.Minute), b.id, b.epoch, b.epoch, nil); client.CodeOf(err) != controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST {
			t.Error(err)
		}
		if err := b.report(t, c, held(0, -2, 0)); client.CodeOf(err) != controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST {
			t.Error(err)
		}
		if err := b.report(t, c); err != nil {
			t.Error(err)
		}
	})
}
