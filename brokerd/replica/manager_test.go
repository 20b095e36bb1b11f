package replica

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// story is metadata that a test writes record by record, and the manager of broker 1 that is told of it.
type story struct {
	t   *testing.T
	img *fsm.Image
	*Manager
	dir     string
	trusted bool
	// past is what the manager is told that the last process left.
	past *fsm.Image
	// told counts how often the inventory was said to have changed.
	told int
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{t: t, dir: t.TempDir(), trusted: true}
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: "AAAAAAAAAAAAAAAAAAAAAQ", NextMetadataOffset: 1, Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{15: 7}}.Proto(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.img = img
	s.start()
	s.write(&metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
		BrokerId: 1, BrokerEpoch: 1, IncarnationId: fsm.UUID{15: 8}.Bytes(), Fenced: true, Directories: [][]byte{fsm.UUID{15: 9}.Bytes()},
		Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b1", Port: 9092}},
	}}})
	unfenced := false
	s.write(&metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
		BrokerId: 1, BrokerEpoch: 1, Fenced: &unfenced,
	}}})
	return s
}

// start opens a manager on the directory and gives it the image as a first delta.
func (s *story) start() {
	s.t.Helper()
	m, err := Open(Config{
		NodeID: 1, Dir: s.dir, BrokerEpoch: func() int64 { return 1 }, Trusted: func() bool { return s.trusted },
		Past: func() *fsm.Image { return s.past }, InventoryChanged: func() { s.told++ }, StrayFreeBytesMin: -1,
		Alter: func(context.Context, *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
			return nil, errors.New("no controller")
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Manager = m
	s.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			s.t.Error(err)
		}
	})
	empty, err := fsm.Genesis(&metadatav1.LineageStarted{ClusterId: s.img.ClusterID(), NextMetadataOffset: 1, Lineage: s.img.Lineage().ID.Proto()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Apply(fsm.Diff(empty, s.img), s.img)
}

func (s *story) restart() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

func (s *story) write(records ...*metadatav1.Record) {
	s.t.Helper()
	img, delta, err := fsm.FoldBatches(s.img, []*metadatav1.Batch{{TimeMs: 1, Records: records}}, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	s.img = img
	s.Apply(delta, img)
}

func (s *story) create(topic byte) fsm.PartitionID {
	id := fsm.UUID{15: topic}
	s.write(
		&metadatav1.Record{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: string([]byte{'a' + topic}), TopicId: id.Bytes()}}},
		&metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{TopicId: id.Bytes(), Replicas: []int32{1}, Isr: []int32{1}, Leader: 1}}},
	)
	return fsm.PartitionID{Topic: id}
}

func (s *story) remove(id fsm.PartitionID) {
	s.write(&metadatav1.Record{Kind: &metadatav1.Record_RemoveTopic{RemoveTopic: &metadatav1.RemoveTopic{TopicId: id.Topic.Bytes()}}})
}

func (s *story) append(id fsm.PartitionID) {
	s.t.Helper()
	if _, err := s.Append(id, records(s.t, 0, -1, 3), AppendOptions{Acks: AcksAll, LeaderEpoch: -1}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) files(dir string) []string {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, dir))
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestADeletedReplicaIsPutAwayForADay(t *testing.T) {
	s := newStory(t)
	id := s.create(1)
	s.append(id)
	s.remove(id)
	if _, err := s.Append(id, records(t, 0, -1, 1), AppendOptions{LeaderEpoch: -1}); !errors.Is(err, ErrUnknownPartition) {
		t.Fatalf("append to a deleted topic: %v", err)
	}
	if in, away := s.files("partitions"), s.files("stray"); len(in) != 0 || len(away) != 1 || away[0] != stray.PartitionName(id)+"@1.5" {
		t.Fatalf("partitions %v, stray %v", in, away)
	}
	if err := s.purgeStrays(time.Now().Add(23 * time.Hour)); err != nil || len(s.files("stray")) != 1 {
		t.Fatalf("purged before its time: %v", err)
	}
	if err := s.purgeStrays(time.Now().Add(25 * time.Hour)); err != nil || len(s.files("stray")) != 0 {
		t.Fatalf("kept after its time: %v", err)
	}
}

// TestDoubtedMetadataDeletesNothing doubts the metadata while a topic goes: nothing moves until a start with metadata
// that is trusted.
func TestDoubtedMetadataDeletesNothing(t *testing.T) {
	s := newStory(t)
	id := s.create(1)
	s.append(id)
	s.trusted = false
	s.remove(id)
	if in, away := s.files("partitions"), s.files("stray"); len(in) != 1 || len(away) != 0 {
		t.Fatalf("I22: partitions %v, stray %v", in, away)
	}
	if err := s.purgeStrays(time.Now().Add(48 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.trusted = true
	s.restart()
	if in, away := s.files("partitions"), s.files("stray"); len(in) != 0 || len(away) != 1 {
		t.Fatalf("after the next start: partitions %v, stray %v", in, away)
	}
}

func TestAReplicaThatIsOursAgainIsTakenBack(t *testing.T) {
	s := newStory(t)
	id := s.create(1)
	s.append(id)
	img := s.img
	s.remove(id)
	s.img = img // the topic is undeleted
	s.restart()
	if in, away := s.files("partitions"), s.files("stray"); len(in) != 1 || len(away) != 0 {
		t.Fatalf("partitions %v, stray %v", in, away)
	}
	p, err := s.partition(id)
	if err != nil || p.log.EndOffset() != 3 {
		t.Fatalf("log ends at %d, %v", p.log.EndOffset(), err)
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	s := newStory(t)
	for _, name := range []string{"partitions/notes.txt", "stray/keep"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.restart()
	if err := s.purgeStrays(time.Now().Add(1000 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if len(s.files("partitions")) != 1 || len(s.files("stray")) != 1 {
		t.Fatalf("partitions %v, stray %v", s.files("partitions"), s.files("stray"))
	}
}

func TestHighWatermarksSurviveAStop(t *testing.T) {
	s := newStory(t)
	id := s.create(1)
	s.append(id)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	highs, err := readHighWatermarks(s.dir)
	if err != nil || highs[id] != 3 {
		t.Fatalf("checkpoint %v, %v", highs, err)
	}
	path := filepath.Join(s.dir, highWatermarksFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1
		if highs, err := decodeHighWatermarks(damaged); err == nil {
			t.Fatalf("byte %d flipped: read %v", i, highs)
		}
	}
}

func TestAClosedManagerServesNothing(t *testing.T) {
	s := newStory(t)
	id := s.create(1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(id, records(t, 0, -1, 1), AppendOptions{LeaderEpoch: -1}); err == nil {
		t.Fatal("appended after the close")
	}
}

// FuzzHighWatermarks reads arbitrary bytes as a checkpoint; what is read writes back to something that reads the same.
func FuzzHighWatermarks(f *testing.F) {
	f.Add(encodeHighWatermarks(map[string]int64{stray.PartitionName(testPartition): 5}))
	f.Add([]byte("skiff-high-watermarks 1\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		highs, err := decodeHighWatermarks(in)
		if err != nil {
			return
		}
		names := map[string]int64{}
		for id, high := range highs {
			names[stray.PartitionName(id)] = high
		}
		again, err := decodeHighWatermarks(encodeHighWatermarks(names))
		if err != nil || len(again) != len(highs) {
			t.Fatalf("%v reads back as %v, %v", highs, again, err)
		}
	})
}
