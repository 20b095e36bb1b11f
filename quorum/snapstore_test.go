package quorum

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
)

// recordingSink remembers how it ended.
type recordingSink struct {
	bytes.Buffer
	closed, cancelled int
	failWrite         error
	failClose         error
}

func (s *recordingSink) ID() string { return "x" }

func (s *recordingSink) Write(p []byte) (int, error) {
	if s.failWrite != nil {
		return 0, s.failWrite
	}
	return s.Buffer.Write(p)
}

func (s *recordingSink) Close() error  { s.closed++; return s.failClose }
func (s *recordingSink) Cancel() error { s.cancelled++; return nil }

func testPlan() *plan {
	directory := newUUID()
	return &plan{
		ID: newUUID().String(), ClusterID: newUUID().String(),
		Lineage: planLineage{Number: 1, UUID: newUUID().String()},
		Voters:  []planVoter{{NodeID: 101, DirectoryID: directory.String(), Address: "a:9093"}},
	}
}

func encodedSnapshot(t *testing.T) []byte {
	t.Helper()
	img, err := testPlan().genesis()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := fsm.WriteSnapshot(img, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sinkOver(inner *recordingSink) *verifyingSink {
	return &verifyingSink{inner: inner, verifier: fsm.NewSnapshotVerifier()}
}

// TestSinkNeverCountsWhatCannotBeRead: raft closes a sink twice and compacts the log after the second nil.
func TestSinkNeverCountsWhatCannotBeRead(t *testing.T) {
	good := encodedSnapshot(t)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	full := errors.New("no space left on device")
	cases := map[string]struct {
		inner *recordingSink
		data  []byte
		ok    bool
	}{
		"good":          {&recordingSink{}, good, true},
		"cut short":     {&recordingSink{}, good[:len(good)-1], false},
		"empty":         {&recordingSink{}, nil, false},
		"a flipped bit": {&recordingSink{}, flipped, false},
		"too long":      {&recordingSink{}, append(bytes.Clone(good), 0), false},
		"full disk":     {&recordingSink{failWrite: full}, good, false},
		"failing close": {&recordingSink{failClose: full}, good, false},
	}
	for name, c := range cases {
		s := sinkOver(c.inner)
		s.Write(c.data) //nolint:errcheck // raft's io.Copy stops; a Persist that ignores it must not get away with it
		first, second := s.Close(), s.Close()
		if (first == nil) != c.ok || !errors.Is(second, first) {
			t.Errorf("%s: Close gives %v, then %v", name, first, second)
		}
		if kept := c.inner.closed == 1 && c.inner.cancelled == 0; kept != (c.ok || c.inner.failClose != nil) {
			t.Errorf("%s: closed %d times, cancelled %d times", name, c.inner.closed, c.inner.cancelled)
		}
		if err := s.Cancel(); err != nil {
			t.Errorf("%s: Cancel after Close: %v", name, err)
		}
	}
}

func TestCancelledSinkStaysCancelled(t *testing.T) {
	inner := &recordingSink{}
	s := sinkOver(inner)
	if err := s.Cancel(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil {
		t.Error("a cancelled snapshot was completed")
	}
	if inner.closed != 0 || inner.cancelled != 1 {
		t.Errorf("closed %d, cancelled %d", inner.closed, inner.cancelled)
	}
}

// snapshotsIn is a store whose files a test can damage.
type snapshotsIn struct {
	*snapshotStore
	dir string
}

// groundWith makes a log and snapshots for preflight.
func groundWith(t *testing.T, first, last uint64, snapshots ...uint64) (raft.LogStore, *snapshotsIn) {
	t.Helper()
	logs := raft.NewInmemStore()
	for i := first; i <= last && last > 0; i++ {
		if err := logs.StoreLog(&raft.Log{Index: i, Term: 1}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	store, err := newSnapshotStore(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	p := testPlan()
	for _, index := range snapshots {
		_, trans := raft.NewInmemTransport("")
		sink, err := store.Create(raft.SnapshotVersionMax, index, 1, p.configuration(), 1, trans)
		if err != nil {
			t.Fatal(err)
		}
		img, err := p.genesis()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(fsm.WriteSnapshot(img, sink), sink.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return logs, &snapshotsIn{snapshotStore: store, dir: filepath.Join(dir, "snapshots")}
}
