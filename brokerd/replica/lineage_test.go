package replica

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// reborn is the first image of a lineage that begins with the story's image.
func (s *story) reborn() *fsm.Image {
	s.t.Helper()
	img, err := fsm.Rebirth(s.img, fsm.Birth{ClusterID: s.img.ClusterID(), UUID: fsm.UUID{15: 77}})
	if err != nil {
		s.t.Fatal(err)
	}
	return img
}

// follow gives the manager the first image of another lineage, as a whole.
func (s *story) follow(img *fsm.Image) {
	s.t.Helper()
	s.img = img
	s.Apply(fsm.Diff(s.empty(), img), img)
}

func (s *story) empty() *fsm.Image {
	s.t.Helper()
	lineage := s.img.Lineage()
	born := &metadatav1.LineageStarted{ClusterId: s.img.ClusterID(), NextMetadataOffset: 1, Lineage: lineage.ID.Proto()}
	for _, a := range lineage.Ancestors {
		born.Ancestors = append(born.Ancestors, &metadatav1.LineageAncestor{Uuid: a.UUID.Bytes(), ForkOffset: a.ForkOffset})
	}
	empty, err := fsm.Genesis(born)
	if err != nil {
		s.t.Fatal(err)
	}
	return empty
}

// elect ends the wait of a partition in favour of broker 1, which has registered again.
func (s *story) elect(id fsm.PartitionID, leaderEpoch int32) {
	s.t.Helper()
	leader, waits, fenced, epoch := int32(1), false, false, s.img.NextOffset()
	s.write(
		&metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
			BrokerId: 1, BrokerEpoch: epoch, IncarnationId: fsm.UUID{15: 8}.Bytes(), Fenced: true, Directories: [][]byte{fsm.UUID{15: 9}.Bytes()},
			Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b1", Port: 9092}},
		}}},
		&metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
			BrokerId: 1, BrokerEpoch: epoch, Fenced: &fenced,
		}}},
		&metadatav1.Record{Kind: &metadatav1.Record_PartitionChange{PartitionChange: &metadatav1.PartitionChange{
			TopicId: id.Topic.Bytes(), PartitionId: id.Partition, Isr: &metadatav1.BrokerIDs{Ids: []int32{1}}, Leader: &leader, LeaderEpoch: &leaderEpoch,
			AwaitingInventory: &waits,
		}}},
	)
}

func (s *story) confirm() {
	s.write(&metadatav1.Record{Kind: &metadatav1.Record_LineageConfirmed{LineageConfirmed: &metadatav1.LineageConfirmed{}}})
}

// TestNoRoleOutlivesItsLineage restores a snapshot that is older than the roles: even a leader epoch that the last lineage
// had passed long ago ends them.
func TestNoRoleOutlivesItsLineage(t *testing.T) {
	s := newStory(t)
	id := s.create(1)
	saved := s.reborn()
	s.append(id)
	p, err := s.partition(id)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.leaderEpoch, p.partitionEpoch = 1<<20, 1<<20 // what the last lineage knew
	p.mu.Unlock()
	s.follow(saved)
	if _, err := s.Append(id, records(t, 0, -1, 1), AppendOptions{LeaderEpoch: -1}); !errors.Is(err, ErrNotLeaderOrFollower) {
		t.Fatalf("append while the partition awaits inventories: %v", err)
	}
	if st := s.InventoryState(); st.Awaiting != 1 || st.Image != saved || st.Strays {
		t.Fatalf("%+v", st)
	}
	list, err := s.Inventory(func(fsm.PartitionID) bool { return false })
	if err != nil || len(list) != 1 || list[0].GetLogEndOffset() != 3 || list[0].GetLastLeaderEpoch() != 0 || !list[0].GetClean() || list[0].GetStray() != nil {
		t.Fatalf("inventory %v, %v", list, err)
	}
	s.elect(id, 1<<16+5)
	s.append(id)
	if p.log.EndOffset() != 6 || p.highWatermark() != 6 {
		t.Fatalf("the log ends at %d, its high watermark is %d", p.log.EndOffset(), p.highWatermark())
	}
	if st := s.InventoryState(); st.Awaiting != 0 {
		t.Fatalf("%+v", st)
	}
}

// TestARestoredClusterPurgesNothingUntilItIsConfirmed keeps what it took away, whatever its age (I22); from the confirmation
// on the age counts.
func TestARestoredClusterPurgesNothingUntilItIsConfirmed(t *testing.T) {
	s := newStory(t)
	saved := s.reborn()
	id := s.create(1)
	s.append(id)
	s.follow(saved)
	if away := s.files("stray"); len(away) != 1 || !strings.Contains(away[0], "@2.") || len(s.files("partitions")) != 0 {
		t.Fatalf("strays %v", away)
	}
	old := time.Now().Add(-100 * time.Hour)
	if err := os.Chtimes(filepath.Join(s.dir, "stray", s.files("stray")[0]), old, old); err != nil {
		t.Fatal(err)
	}
	if err := s.purgeStrays(time.Now()); err != nil || len(s.files("stray")) != 1 {
		t.Fatalf("I22: purged on unconfirmed metadata: %v", err)
	}
	s.confirm()
	if err := s.purgeStrays(time.Now().Add(23 * time.Hour)); err != nil || len(s.files("stray")) != 1 {
		t.Fatalf("purged within a day of the confirmation: %v", err)
	}
	if err := s.purgeStrays(time.Now().Add(25 * time.Hour)); err != nil || len(s.files("stray")) != 0 {
		t.Fatalf("kept after a day: %v", err)
	}
}

// TestAConfirmationThatWasMissedCountsFromTheStart lets a broker start that was down when its lineage was confirmed.
func TestAConfirmationThatWasMissedCountsFromTheStart(t *testing.T) {
	s := newStory(t)
	saved := s.reborn()
	id := s.create(1)
	s.follow(saved)
	s.past = s.img
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-100 * time.Hour)
	if err := os.Chtimes(filepath.Join(s.dir, "stray", s.files("stray")[0]), old, old); err != nil {
		t.Fatal(err)
	}
	img, _, err := fsm.FoldBatches(s.img, []*metadatav1.Batch{{TimeMs: 1, Records: []*metadatav1.Record{{Kind: &metadatav1.Record_LineageConfirmed{LineageConfirmed: &metadatav1.LineageConfirmed{}}}}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.img = img
	s.start()
	if err := s.purgeStrays(time.Now()); err != nil || len(s.files("stray")) != 1 {
		t.Fatalf("%s was purged as soon as the broker heard of the confirmation: %v", stray.PartitionName(id), err)
	}
}

// TestAStrayKnowsItsTopicWhereverItIsTaken: by a deletion, by a new lineage, and by a start that only has what the last
// process left.
func TestAStrayKnowsItsTopicWhereverItIsTaken(t *testing.T) {
	for name, take := range map[string]func(s *story, id fsm.PartitionID, saved *fsm.Image){
		"a deletion":    func(s *story, id fsm.PartitionID, _ *fsm.Image) { s.remove(id) },
		"a new lineage": func(s *story, _ fsm.PartitionID, saved *fsm.Image) { s.follow(saved) },
		"a start after it": func(s *story, _ fsm.PartitionID, saved *fsm.Image) {
			if err := s.Close(); err != nil {
				s.t.Fatal(err)
			}
			s.past, s.img = s.img, saved
			m, err := Open(s.cfg)
			if err != nil {
				s.t.Fatal(err)
			}
			s.Manager = m
			s.t.Cleanup(func() { _ = m.Close() })
			s.follow(saved)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			saved := s.reborn()
			id := s.create(1)
			value := "1234567"
			s.write(&metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
				ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, ResourceName: "b", Key: "retention.ms", Value: &value,
			}}})
			s.append(id)
			told := s.told
			take(s, id, saved)
			list, err := s.Inventory(func(fsm.PartitionID) bool { return false })
			if err != nil || len(list) != 1 {
				t.Fatalf("%v, %v", list, err)
			}
			about, log := list[0].GetStray(), list[0]
			if about.GetTopicName() != "b" || about.GetNumPartitions() != 1 || about.GetReplicationFactor() != 1 || about.GetSizeBytes() == 0 || about.GetSinceMs() == 0 {
				t.Fatalf("the stray knows %v", about)
			}
			if c := about.GetConfigs(); len(c) != 1 || c[0].GetKey() != "retention.ms" || c[0].GetValue() != value {
				t.Fatalf("the stray knows the configs %v", c)
			}
			if log.GetLogEndOffset() != 3 || log.GetLastLeaderEpoch() != 0 || !log.GetClean() {
				t.Fatalf("the stray's log is %v", log)
			}
			if s.told == told || !s.InventoryState().Strays {
				t.Fatal("nobody was told that the strays changed")
			}
		})
	}
}

// TestAnUndeletedReplicaIsTakenBackBeforeItIsReported gives the broker a partition that awaits inventories.
func TestAnUndeletedReplicaIsTakenBackBeforeItIsReported(t *testing.T) {
	s := newStory(t)
	id := s.create(1)
	s.append(id)
	s.remove(id)
	before := s.InventoryState()
	s.write(
		&metadatav1.Record{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: "b", TopicId: id.Topic.Bytes()}}},
		&metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
			TopicId: id.Topic.Bytes(), Replicas: []int32{1}, Leader: -1, LeaderEpoch: 70000, PartitionEpoch: 70000, AwaitingInventory: true,
		}}},
	)
	after := s.InventoryState()
	if after.Generation == before.Generation || after.Awaiting != 1 || after.Strays {
		t.Fatalf("%+v after %+v", after, before)
	}
	list, err := s.Inventory(func(fsm.PartitionID) bool { return false })
	if err != nil || len(list) != 1 || list[0].GetStray() != nil || list[0].GetLogEndOffset() != 3 {
		t.Fatalf("%v, %v", list, err)
	}
}

// TestASteadyInventoryIsShort leaves out the logs that have a leader, but for those that are asked for.
func TestASteadyInventoryIsShort(t *testing.T) {
	s := newStory(t)
	s.append(s.create(1))
	wanted := s.create(2)
	if list, err := s.Inventory(func(fsm.PartitionID) bool { return false }); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	list, err := s.Inventory(func(id fsm.PartitionID) bool { return id == wanted })
	if err != nil || len(list) != 1 || string(list[0].GetTopicId()) != string(wanted.Topic.Bytes()) {
		t.Fatalf("%v, %v", list, err)
	}
}
