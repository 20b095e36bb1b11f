package brokerd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// left is the data directory of a stopped broker 1 with the metadata ours and one log for each of its replicas there.
func left(t *testing.T, ours *fsm.Image) string {
	t.Helper()
	dir := t.TempDir()
	m, err := openMeta(dir, 1)
	if err == nil {
		err = m.pin(ours.ClusterID())
	}
	if err != nil {
		t.Fatal(err)
	}
	follower, err := metadata.Open(metadata.Config{Dir: filepath.Join(dir, metadataName)})
	if err == nil {
		err = follower.Snapshot(ours)
	}
	if err != nil {
		t.Fatal(err)
	}
	for id := range ours.PartitionsOf(1) {
		log, err := partlog.Open(filepath.Join(dir, stray.PartitionsDir, stray.PartitionName(id)), partlog.Options{TopicID: id.Topic, Partition: id.Partition})
		if err == nil {
			err = errors.Join(log.TruncateFullyAndStartAt(40), log.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// withTopic adds a topic with one partition on broker 1, led by it unless it is fenced.
func withTopic(t *testing.T, img *fsm.Image, number byte) *fsm.Image {
	t.Helper()
	id := fsm.UUID{15: number}
	p := &metadatav1.Partition{TopicId: id.Bytes(), Replicas: []int32{1}, Isr: []int32{1}, Leader: 1}
	if b, ok := img.Broker(1); ok && b.Fenced {
		p.Isr, p.Leader, p.AwaitingInventory = nil, -1, true
	}
	next, _, err := fsm.FoldBatches(img, []*metadatav1.Batch{{TimeMs: 1, Records: []*metadatav1.Record{
		{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: "topic-" + string('a'+rune(number)), TopicId: id.Bytes()}}},
		{Kind: &metadatav1.Record_Partition{Partition: p}},
	}}}, 5)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func unfencedImage(t *testing.T) *fsm.Image {
	t.Helper()
	unfenced := false
	img, _, err := fsm.FoldBatches(registeredImage(t), []*metadatav1.Batch{{TimeMs: 1, Records: []*metadatav1.Record{
		{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{BrokerId: 1, BrokerEpoch: 1, Fenced: &unfenced}}},
	}}}, 5)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func rebirth(t *testing.T, img *fsm.Image, cluster string, number byte) *fsm.Image {
	t.Helper()
	reborn, err := fsm.Rebirth(img, fsm.Birth{ClusterID: cluster, UUID: fsm.UUID{number}})
	if err != nil {
		t.Fatal(err)
	}
	return reborn
}

// TestAKilledAdoptionIsFinishedByTheNext leaves each state that a kill between two steps can leave: some replicas moved, all
// moved, the metadata log aside and the cluster id still the old one.
func TestAKilledAdoptionIsFinishedByTheNext(t *testing.T) {
	base := withTopic(t, unfencedImage(t), 1)
	ours := withTopic(t, withTopic(t, rebirth(t, base, base.ClusterID(), 0x21), 2), 3)
	theirs := rebirth(t, base, fsm.UUID{7}.String(), 0x22)
	for steps := range 4 {
		dir := left(t, ours)
		cfg := AdoptConfig{Dir: dir, Theirs: theirs, ClusterID: theirs.ClusterID()}
		killed := plan(t, cfg)
		if len(killed.Kept) != 1 || len(killed.Put) != 2 || killed.Aside == "" {
			t.Fatalf("plan %+v", killed)
		}
		for i := range min(steps, 2) {
			if err := killed.put(killed.Put[i]); err != nil {
				t.Fatal(err)
			}
		}
		if steps == 3 {
			if err := os.Rename(filepath.Join(dir, metadataName), killed.Aside); err != nil {
				t.Fatal(err)
			}
		}
		if err := killed.Close(); err != nil {
			t.Fatal(err)
		}
		next := plan(t, cfg)
		if err := errors.Join(next.Run(), next.Close()); err != nil {
			t.Fatalf("killed after %d steps: %v", steps, err)
		}
		adopted(t, dir, theirs, steps)
	}
}

func plan(t *testing.T, cfg AdoptConfig) *Adoption {
	t.Helper()
	a, err := PlanAdoption(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// adopted fails unless every log is there, the named ones among the strays, and the broker may follow the quorum.
func adopted(t *testing.T, dir string, theirs *fsm.Image, steps int) {
	t.Helper()
	store, err := stray.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	strays, err := store.List()
	kept, err2 := store.Partitions()
	if err := errors.Join(err, err2); err != nil || len(strays) != 2 || len(kept) != 1 {
		t.Fatalf("killed after %d steps: strays %v, kept %v, %v", steps, strays, kept, err)
	}
	for _, st := range strays {
		s, err := store.Inspect(st.Name)
		if err != nil || s.EndOffset != 40 || !strings.HasPrefix(st.Topic.Name, "topic-") || st.Lineage != theirs.Lineage().ID.Number {
			t.Fatalf("killed after %d steps: stray %+v with %+v, %v", steps, st, s, err)
		}
	}
	m, err := readMeta(dir)
	if err != nil || m.ClusterID != theirs.ClusterID() {
		t.Fatalf("killed after %d steps: %+v, %v", steps, m, err)
	}
	if _, err := os.Stat(filepath.Join(dir, metadataName)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("killed after %d steps: the metadata log is still there: %v", steps, err)
	}
	asides, err := filepath.Glob(filepath.Join(dir, metadataName+".aside-*"))
	if err != nil || len(asides) != 1 {
		t.Fatalf("killed after %d steps: %v, %v", steps, asides, err)
	}
	if img, _, err := metadata.ReadImage(asides[0]); err != nil || img.NumTopics() != 3 {
		t.Fatalf("killed after %d steps: the old metadata is lost: %v", steps, err)
	}
}

// TestWhatNeedsNoAdoption is left alone: the same lineage, one that continues it, a broker without metadata.
func TestWhatNeedsNoAdoption(t *testing.T) {
	ours := withTopic(t, unfencedImage(t), 1)
	other := rebirth(t, ours, ours.ClusterID(), 0x31)
	dir := left(t, ours)
	for name, theirs := range map[string]*fsm.Image{"the same": withTopic(t, ours, 2), "a descendant": other, "a descendant's descendant": rebirth(t, other, ours.ClusterID(), 0x32)} {
		a := plan(t, AdoptConfig{Dir: dir, Theirs: theirs})
		if a.NotNeeded == "" || len(a.Put) != 0 {
			t.Errorf("%s: %+v", name, a)
		}
		if err := errors.Join(a.Run(), a.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, metadataName)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, metadataName)); err != nil {
		t.Fatal(err)
	}
	a := plan(t, AdoptConfig{Dir: dir, Theirs: other})
	if a.NotNeeded == "" {
		t.Errorf("without metadata: %+v", a)
	}
	if _, err := PlanAdoption(AdoptConfig{Dir: dir, Theirs: other}); err == nil || !strings.Contains(err.Error(), "another process uses") {
		t.Errorf("a directory in use: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := PlanAdoption(AdoptConfig{Dir: t.TempDir(), Theirs: other}); err == nil || !strings.Contains(err.Error(), "no broker's data directory") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestALogThatPartsFromItsLeaderIsNotKept: the quorum's lineage has elected a leader already, under leader epochs that
// the foreign log may have for other records.
func TestALogThatPartsFromItsLeaderIsNotKept(t *testing.T) {
	theirs := withTopic(t, unfencedImage(t), 1)
	id := fsm.PartitionID{Topic: fsm.UUID{15: 1}}
	if why := whyPut(theirs, id, 1); !strings.Contains(why, "has a leader") {
		t.Errorf("%q", why)
	}
	if why := whyPut(theirs, id, 2); !strings.Contains(why, "does not give it to this broker") {
		t.Errorf("%q", why)
	}
	if why := whyPut(rebirth(t, theirs, theirs.ClusterID(), 0x41), id, 1); why != "" {
		t.Errorf("%q", why)
	}
}
