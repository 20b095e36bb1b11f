package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// crashingEngine is a stable store that loses power after a number of writes: later ones never happen.
type crashingEngine struct {
	*raft.InmemStore
	left int
}

var errPower = errors.New("power is gone")

func (e *crashingEngine) spend() error {
	if e.left == 0 {
		return errPower
	}
	e.left--
	return nil
}

func (e *crashingEngine) Set(k, v []byte) error {
	if err := e.spend(); err != nil {
		return err
	}
	return e.InmemStore.Set(k, v)
}

func (e *crashingEngine) SetUint64(k []byte, v uint64) error {
	if err := e.spend(); err != nil {
		return err
	}
	return e.InmemStore.SetUint64(k, v)
}

func (e *crashingEngine) Close() error { return nil }

func noFatal(error) {}

// castVote does what hashicorp/raft does when it votes: new term, then the vote in two steps. SetUint64 ends its
// goroutine when the write fails, so it runs in one of its own.
func castVote(g *guard, term uint64, candidate string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if g.SetUint64(keyCurrentTerm, term) != nil || g.SetUint64(keyLastVoteTerm, term) != nil {
			return
		}
		g.Set(keyLastVoteCand, []byte(candidate)) //nolint:errcheck // a crash is what is tested
	}()
	<-done
}

// TestVoteIsAtomic: a crash between any two stable writes never pairs a term with the candidate of another.
func TestVoteIsAtomic(t *testing.T) {
	votes := []string{1: "a", 2: "b", 3: "a", 4: "c"}
	for left := range 12 {
		disk := raft.NewInmemStore()
		g := newGuard(&crashingEngine{InmemStore: disk, left: left}, &logSize{}, noFatal)
		for term := 1; term < len(votes); term++ {
			castVote(g, uint64(term), votes[term])
		}
		again := newGuard(&crashingEngine{InmemStore: disk}, &logSize{}, noFatal)
		term, err := again.GetUint64(keyLastVoteTerm)
		candidate, err2 := again.Get(keyLastVoteCand)
		if fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("after %d writes: term %v, candidate %v", left, err, err2)
		}
		if err != nil {
			if err.Error() != "not found" {
				t.Errorf("absence reads %q; hashicorp/raft knows \"not found\" only", err)
			}
			continue
		}
		if votes[term] != string(candidate) {
			t.Errorf("after %d writes: term %d has candidate %q, want %q", left, term, candidate, votes[term])
		}
	}
}

// TestHeldTermIsNotAVote: until its candidate comes, both keys say what was before.
func TestHeldTermIsNotAVote(t *testing.T) {
	g := newGuard(&crashingEngine{InmemStore: raft.NewInmemStore(), left: 100}, &logSize{}, noFatal)
	castVote(g, 3, "a")
	if err := g.SetUint64(keyLastVoteTerm, 4); err != nil {
		t.Fatal(err)
	}
	if term, err := g.GetUint64(keyLastVoteTerm); term != 3 || err != nil {
		t.Errorf("term %d, %v", term, err)
	}
	if candidate, err := g.Get(keyLastVoteCand); string(candidate) != "a" || err != nil {
		t.Errorf("candidate %q, %v", candidate, err)
	}
	if err := newGuard(&crashingEngine{InmemStore: raft.NewInmemStore(), left: 100}, &logSize{}, noFatal).Set(keyLastVoteCand, []byte("x")); err == nil {
		t.Error("a candidate without a term was written")
	}
}

func TestFirstFailedWriteIsTheLast(t *testing.T) {
	var fatal []error
	e := &crashingEngine{InmemStore: raft.NewInmemStore()}
	g := newGuard(e, &logSize{}, func(err error) { fatal = append(fatal, err) })
	if err := g.Set([]byte("k"), []byte("v")); !errors.Is(err, errPower) {
		t.Fatalf("%v", err)
	}
	e.left = 100 // the disk seems to work again
	if err := g.StoreLogs([]*raft.Log{{Index: 1}}); !errors.Is(err, errPower) {
		t.Errorf("a write after a failed one: %v", err)
	}
	if last, _ := e.LastIndex(); last != 0 {
		t.Error("it reached the disk")
	}
	if len(fatal) != 1 {
		t.Errorf("the process was ended %d times", len(fatal))
	}
}

func TestStoresKeepTheirContract(t *testing.T) {
	for _, kind := range []StoreKind{StoreBolt, StoreWAL} {
		t.Run(string(kind), func(t *testing.T) {
			dir := t.TempDir()
			pin := storePin{Kind: kind, UUID: newUUID(), Format: storeFormat}
			if err := makeStore(dir, pin, hclog.NewNullLogger()); err != nil {
				t.Fatal(err)
			}
			e, err := openEngine(kind, dir, false, hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			g := newGuard(e, &logSize{}, func(err error) { t.Error(err) })
			if got := g.IsMonotonic(); got != (kind == StoreWAL) {
				t.Errorf("monotonic %t", got)
			}
			for _, key := range [][]byte{keyLastVoteCand, []byte("never written")} {
				if _, err := g.Get(key); err == nil || err.Error() != "not found" {
					t.Errorf("%s: %v", key, err)
				}
			}
			if _, err := g.GetUint64(keyLastVoteTerm); err == nil || err.Error() != "not found" {
				t.Errorf("vote term: %v", err)
			}
			if term, err := g.GetUint64(keyCurrentTerm); term != genesisTerm || err != nil {
				t.Errorf("current term %d, %v", term, err)
			}
			castVote(g, 9, "somebody")
			if c, err := g.Get(keyLastVoteCand); !bytes.Equal(c, []byte("somebody")) || err != nil {
				t.Errorf("candidate %q, %v", c, err)
			}
			if err := pin.check(e, "x"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPinFindsAnotherStore(t *testing.T) {
	dir := t.TempDir()
	pin := storePin{Kind: StoreBolt, UUID: newUUID(), Format: storeFormat}
	if err := makeStore(dir, pin, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	e, err := openEngine(StoreBolt, dir, false, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	refused := func(name string, err error) {
		t.Helper()
		var stop *StopError
		if !errors.As(err, &stop) || stop.Code != ExitRefused || stop.Fix == "" {
			t.Errorf("%s: %v, want exit code 78 with a fix", name, err)
		}
	}
	refused("another uuid", storePin{UUID: newUUID()}.check(e, "x"))
	if err := e.Set(pinKey, append([]byte{storeFormat + 1}, pin.UUID[:]...)); err != nil {
		t.Fatal(err)
	}
	refused("a newer format", pin.check(e, "x"))
	_, err = openEngine(StoreBolt, filepath.Join(dir, "elsewhere"), false, hclog.NewNullLogger())
	refused("a missing store", err)
	_, err = openEngine("rocks", dir, true, hclog.NewNullLogger())
	refused("an unknown kind", err)
}

func TestLogSizeCountsAndForgets(t *testing.T) {
	s := &logSize{}
	const entries, size = 20_000, 1000
	for i := uint64(1); i <= entries; i++ {
		s.append([]*raft.Log{{Index: i, Data: make([]byte, size-entryOverheadBytes)}})
	}
	near := func(name string, got, want uint64) {
		t.Helper()
		if got < want || got > want+markBytes+size {
			t.Errorf("%s: %d, want %d and at most a piece more", name, got, want)
		}
	}
	near("all", s.since(0), entries*size)
	near("half", s.since(entries/2), entries/2*size)
	if got := s.since(entries); got != 0 {
		t.Errorf("nothing: %d", got)
	}
	if n := s.trailing(5_000_000); n > 5000 || n < 5000-2*markBytes/size {
		t.Errorf("%d entries in 5 MB", n)
	}
	s.deleteRange(1, 15_000)
	near("the rest", s.since(15_000), 5000*size)
	s.deleteRange(18_001, entries)
	if got := s.since(15_000); got > 3000*size+2*markBytes {
		t.Errorf("after the suffix went: %d", got)
	}
	s.append([]*raft.Log{{Index: 18_001, Data: make([]byte, 10)}})
	if len(s.marks) > 40 {
		t.Errorf("%d marks", len(s.marks))
	}
}
