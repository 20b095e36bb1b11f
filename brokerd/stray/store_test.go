package stray

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

var (
	testID      = fsm.PartitionID{Topic: fsm.UUID{15: 7}, Partition: 3}
	testLineage = fsm.LineageID{Number: 2, UUID: fsm.UUID{15: 9}}
	testTopic   = Topic{Name: "orders", Partitions: 12, ReplicationFactor: 3, Configs: []fsm.ConfigEntry{{Key: "retention.ms", Value: "1"}, {Key: "segment.bytes", Value: "2"}}}
	testTime    = time.UnixMilli(1_700_000_000_123)
)

func taken(offset int64) Taken {
	return Taken{Lineage: testLineage, Offset: offset, At: testTime, Topic: testTopic}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// replica makes a log with a file in the partitions directory.
func replica(t *testing.T, s *Store, id fsm.PartitionID, content string) {
	t.Helper()
	if err := os.MkdirAll(s.PartitionDir(id), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.PartitionDir(id), "data"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s *Store) []Stray {
	t.Helper()
	l, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAStrayKeepsWhatWasKnownOfItsTopic(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	replica(t, s, testID, "x")
	if name, err := s.Put(testID, taken(77)); err != nil || name != PartitionName(testID)+"@2.77" {
		t.Fatalf("%q, %v", name, err)
	}
	for range 2 { // from the disk, and as this store remembers it
		l := list(t, open(t, dir))
		if len(l) != 1 || !reflect.DeepEqual(l[0].Topic, testTopic) || !l[0].Since.Equal(testTime) || !l[0].Counted.Equal(testTime) {
			t.Fatalf("%+v", l)
		}
	}
	if name, err := s.Put(testID, taken(78)); err != nil || name != "" {
		t.Fatalf("a replica that is not there was put away as %q, %v", name, err)
	}
}

func TestANewerStrayIsTakenBackBeforeAnOlderOne(t *testing.T) {
	s := open(t, t.TempDir())
	for offset, content := range map[int64]string{9: "old", 10: "new"} {
		replica(t, s, testID, content)
		if _, err := s.Put(testID, taken(offset)); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Changes()
	if took, err := s.TakeBack(testID); !took || err != nil {
		t.Fatalf("%v, %v", took, err)
	}
	if got, err := os.ReadFile(filepath.Join(s.PartitionDir(testID), "data")); err != nil || string(got) != "new" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(s.PartitionDir(testID), infoFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a replica that is no stray says that it is one: %v", err)
	}
	if took, err := s.TakeBack(testID); took || err != nil {
		t.Fatalf("the replica that is in its place was replaced: %v, %v", took, err)
	}
	if s.Changes() == before || len(list(t, s)) != 1 || !s.Any() {
		t.Fatalf("%d changes, strays %v", s.Changes(), list(t, s))
	}
}

// TestAStrayOfAnOlderVersionStillWorks has no file of its topic, or one that cannot be read, or one of another stray.
func TestAStrayOfAnOlderVersionStillWorks(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"none":           os.Remove,
		"damaged":        func(path string) error { return os.Truncate(path, 40) },
		"of a newer one": func(path string) error { return disk.WriteSealed(path, infoMagic, infoFormat+1, []byte("{}")) },
		"of another": func(path string) error {
			file, err := info{name: Name{ID: testID, Lineage: 1, Offset: 1}, topic: testTopic}.encode()
			return errors.Join(err, os.WriteFile(path, file, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			replica(t, s, testID, "x")
			stray, err := s.Put(testID, taken(77))
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(filepath.Join(dir, Dir, stray, infoFile)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, Dir, stray), testTime, testTime); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir)
			if l := list(t, s); len(l) != 1 || l[0].Topic.Name != "" || !l[0].Since.Equal(testTime) {
				t.Fatalf("%+v", l)
			}
			if took, err := s.TakeBack(testID); !took || err != nil {
				t.Fatalf("%v, %v", took, err)
			}
		})
	}
}

func TestPurgeTakesTheOldestFirst(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range 4 {
		id := fsm.PartitionID{Topic: testID.Topic, Partition: int32(i)}
		replica(t, s, id, "x")
		at := taken(int64(100 - i))
		at.At = testTime.Add(time.Duration(i) * time.Hour)
		if _, err := s.Put(id, at); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (parts []int32) {
		for _, st := range list(t, s) {
			parts = append(parts, st.ID.Partition)
		}
		return parts
	}
	free := int64(10)
	policy := Policy{Now: testTime.Add(10 * time.Hour), Age: 9 * time.Hour, FreeBytesMin: 11, Free: func() (int64, error) { free++; return free - 1, nil }}
	if err := s.Purge(policy); err != nil || !slices.Equal(left(), []int32{2}) {
		// 0 and 1 are old; 3 is the oldest by offset, and its purge makes enough room.
		t.Fatalf("left %v, %v", left(), err)
	}
	policy.Age, policy.FreeBytesMin = 0, 0
	if err := s.Purge(policy); err != nil || len(left()) != 1 {
		t.Fatalf("left %v, %v", left(), err)
	}
	if err := s.Recount(policy.Now); err != nil || !list(t, s)[0].Counted.Equal(policy.Now) {
		t.Fatalf("%v", err)
	}
}

// cut makes every operation after the n-th fail without any effect, as a kill between two of them does.
func (s *Store) cut(n int) error {
	errKilled := errors.New("killed")
	left := func() error {
		if n--; n < 0 {
			return errKilled
		}
		return nil
	}
	was := s.do
	s.do = operations{
		writeFile: func(path string, data []byte, perm fs.FileMode) error {
			if err := left(); err != nil {
				_ = os.WriteFile(path+".tmp", data[:len(data)/2], perm)
				return err
			}
			return was.writeFile(path, data, perm)
		},
		chtimes: func(path string, a, m time.Time) error {
			return firstOf(left, func() error { return was.chtimes(path, a, m) })
		},
		rename:  func(a, b string) error { return firstOf(left, func() error { return was.rename(a, b) }) },
		syncDir: func(d string) error { return firstOf(left, func() error { return was.syncDir(d) }) },
		remove:  func(p string) error { return firstOf(left, func() error { return was.remove(p) }) },
		removeAll: func(p string) error {
			return firstOf(func() error {
				err := left()
				if err != nil {
					_ = os.Remove(filepath.Join(p, "data")) // half of it is gone
				}
				return err
			}, func() error { return was.removeAll(p) })
		},
	}
	return errKilled
}

func firstOf(a, b func() error) error {
	if err := a(); err != nil {
		return err
	}
	return b()
}

// whole tells where the replica is: exactly one place, with its log whole; with what is known of its topic if it is a stray.
func whole(t *testing.T, dir string, n int) (stray bool) {
	t.Helper()
	s := open(t, dir)
	l := list(t, s)
	in, err := os.ReadFile(filepath.Join(s.PartitionDir(testID), "data"))
	switch {
	case err == nil && len(l) == 0 && string(in) == "x":
		return false
	case errors.Is(err, fs.ErrNotExist) && len(l) == 1:
		if got, err := os.ReadFile(filepath.Join(dir, Dir, l[0].String(), "data")); err != nil || string(got) != "x" {
			t.Fatalf("killed after %d operations: the stray has %q, %v", n, got, err)
		}
		return true
	}
	t.Fatalf("killed after %d operations: in its place %q (%v), strays %v", n, in, err, l)
	return false
}

// TestAKillLeavesTheReplicaWholeInOnePlace kills putting away and taking back after every operation; the next process
// repeats it and succeeds.
func TestAKillLeavesTheReplicaWholeInOnePlace(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		s := open(t, dir)
		replica(t, s, testID, "x")
		killed := s.cut(n)
		_, err := s.Put(testID, taken(77))
		if !whole(t, dir, n) {
			if _, err := open(t, dir).Put(testID, taken(77)); err != nil || !whole(t, dir, n) {
				t.Fatalf("killed after %d operations, the next process cannot put it away: %v", n, err)
			}
		}
		if errors.Is(err, killed) {
			continue
		}
		if n < 4 {
			t.Fatalf("putting away ended after %d operations: %v", n, err)
		}
		break
	}
	for n := 0; ; n++ {
		dir := t.TempDir()
		s := open(t, dir)
		replica(t, s, testID, "x")
		if _, err := s.Put(testID, taken(77)); err != nil {
			t.Fatal(err)
		}
		killed := s.cut(n)
		_, err := s.TakeBack(testID)
		if whole(t, dir, n) {
			if took, err := open(t, dir).TakeBack(testID); err != nil || !took || whole(t, dir, n) {
				t.Fatalf("killed after %d operations, the next process cannot take it back: %v", n, err)
			}
		}
		if !errors.Is(err, killed) {
			break
		}
	}
}

// TestAKilledPurgeLeavesNoHalfLogToTakeBack kills a purge after every operation.
func TestAKilledPurgeLeavesNoHalfLogToTakeBack(t *testing.T) {
	policy := Policy{Now: testTime.Add(time.Hour), Age: time.Minute}
	for n := 0; ; n++ {
		dir := t.TempDir()
		s := open(t, dir)
		replica(t, s, testID, "x")
		if _, err := s.Put(testID, taken(77)); err != nil {
			t.Fatal(err)
		}
		killed := s.cut(n)
		err := s.Purge(policy)
		next := open(t, dir)
		if took, err := next.TakeBack(testID); err != nil {
			t.Fatal(err)
		} else if took {
			whole(t, dir, n)
		}
		if err := next.Purge(policy); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(filepath.Join(dir, Dir)); err != nil || len(entries) != 0 {
			t.Fatalf("killed after %d operations, the next purge leaves %v, %v", n, entries, err)
		}
		if !errors.Is(err, killed) {
			return
		}
	}
}

// TestAFullDiskKeepsNoReplicaInItsPlace cannot write the file, and puts the replica away without it.
func TestAFullDiskKeepsNoReplicaInItsPlace(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	replica(t, s, testID, "x")
	s.do.writeFile = func(string, []byte, fs.FileMode) error { return errors.New("no space left on device") }
	if _, err := s.Put(testID, taken(77)); err != nil || !whole(t, dir, 0) {
		t.Fatal(err)
	}
}

// TestAnotherProcessMayPurge beside this store, which learns of it when it looks.
func TestAnotherProcessMayPurge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	replica(t, s, testID, "x")
	if _, err := s.Put(testID, taken(77)); err != nil {
		t.Fatal(err)
	}
	before := s.Changes()
	if err := open(t, dir).Remove(list(t, s)[0].Name); err != nil {
		t.Fatal(err)
	}
	if took, err := s.TakeBack(testID); took || err != nil {
		t.Fatalf("took back what is gone: %v, %v", took, err)
	}
	if s.Any() || s.Changes() == before {
		t.Fatal("the store does not know that its strays changed")
	}
}

// TestAStraysLogTellsWhereItEnds without being opened.
func TestAStraysLogTellsWhereItEnds(t *testing.T) {
	s := open(t, t.TempDir())
	log, err := partlog.Open(s.PartitionDir(testID), partlog.Options{TopicID: testID.Topic, Partition: testID.Partition})
	if err == nil {
		err = errors.Join(log.AssignEpoch(5, 0), log.TruncateFullyAndStartAt(40), log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(testID, taken(77)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Inspect(list(t, s)[0].Name)
	if err != nil || got.StartOffset != 40 || got.EndOffset != 40 || !got.Clean || got.TopicID != testID.Topic || got.Partition != testID.Partition {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestNamesReadBack(t *testing.T) {
	for _, n := range []Name{{ID: testID, Lineage: 1, Offset: 5}, {ID: fsm.PartitionID{Topic: fsm.UUID{0xfb, 0xff}}, Lineage: 1<<64 - 1, Offset: 1<<63 - 1}} {
		if got, err := ParseName(n.String()); err != nil || got != n {
			t.Fatalf("%s reads back as %+v, %v", n, got, err)
		}
	}
	for _, bad := range []string{"", "x", PartitionName(testID), PartitionName(testID) + "@1", PartitionName(testID) + "@1.", PartitionName(testID) + "@-1.2", testID.Topic.String() + "-@1.2", testID.Topic.String() + "--1@1.2", PartitionName(testID) + "@1.2.purge"} {
		if n, err := ParseName(bad); err == nil {
			t.Fatalf("%q was read as %+v", bad, n)
		}
	}
}

// FuzzInfo reads arbitrary bytes as the file of a stray, and as what is sealed in one; what is read is written and read back
// the same.
func FuzzInfo(f *testing.F) {
	for _, i := range []info{
		{name: Name{ID: testID, Lineage: 2, Offset: 77}, lineage: testLineage.UUID, since: testTime, topic: testTopic},
		{name: Name{ID: testID}},
	} {
		file, err := i.encode()
		if err != nil {
			f.Fatal(err)
		}
		_, payload, err := disk.Unseal(infoMagic, file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		sealed, err := disk.Seal(infoMagic, infoFormat, in)
		if err != nil {
			t.Fatal(err)
		}
		readsBack(t, in)
		readsBack(t, sealed)
	})
}

func readsBack(t *testing.T, file []byte) {
	t.Helper()
	i, err := decodeInfo(file)
	if err != nil {
		return
	}
	out, err := i.encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeInfo(out)
	if err != nil || !reflect.DeepEqual(i, again) {
		t.Fatalf("%+v reads back as %+v, %v", i, again, err)
	}
	if twice, err := again.encode(); err != nil || !bytes.Equal(out, twice) {
		t.Fatalf("%q is written as %q, %v", out, twice, err)
	}
}

// TestADamagedInfoIsFound flips each byte of the file and cuts it at each.
func TestADamagedInfoIsFound(t *testing.T) {
	file, err := info{name: Name{ID: testID, Lineage: 2, Offset: 77}, topic: testTopic}.encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range file {
		damaged := bytes.Clone(file)
		damaged[n] ^= 1
		if _, err := decodeInfo(damaged); err == nil {
			t.Fatalf("byte %d flipped was not found", n)
		}
		if _, err := decodeInfo(file[:n]); err == nil {
			t.Fatalf("cut at %d was not found", n)
		}
	}
}
