package transport

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
)

func gateOf(self PeerID, s Standing, serving bool) *Gate {
	return &Gate{Self: self, Standing: func() (Standing, bool) { return s, serving }, Acked: NewAcknowledged()}
}

func TestGateJudgesEveryDifference(t *testing.T) {
	ours := standing(10)
	other := func(change func(*Preamble)) Preamble {
		p := Preamble{Standing: standing(10), From: two, To: one}
		change(&p)
		return p
	}
	cases := []struct {
		name    string
		p       Preamble
		serving bool
		want    Verdict
		says    []string
	}{
		{"a peer", other(func(*Preamble) {}), true, Accepted, nil},
		{"another cluster", other(func(p *Preamble) { p.ClusterID = fsm.UUID{7}.String() }), true, WrongCluster, []string{fsm.UUID{7}.String(), ours.ClusterID}},
		{"another target", other(func(p *Preamble) { p.To.Directory = fsm.UUID{66} }), true, WrongTarget, []string{fsm.UUID{66}.String(), one.String()}},
		{"an older lineage", other(func(p *Preamble) { p.Lineage.Number = 0 }), true, LineageBehind, []string{"0/", "1/"}},
		{"a newer lineage", other(func(p *Preamble) { p.Lineage.Number = 2 }), true, LineageForeign, []string{"2/", "1/"}},
		{"a twin lineage", other(func(p *Preamble) { p.Lineage.UUID = fsm.UUID{5} }), true, LineageForeign, nil},
		{"while starting", other(func(*Preamble) {}), false, NotServing, nil},
	}
	for _, c := range cases {
		a := gateOf(one, ours, c.serving).Judge(c.p)
		if a.Verdict != c.want || a.Self != one || a.LastIndex != 10 {
			t.Errorf("%s: %+v, want verdict %s", c.name, a, c.want)
		}
		for _, word := range c.says {
			if !strings.Contains(a.Refusal, word) {
				t.Errorf("%s: %q does not name %q", c.name, a.Refusal, word)
			}
		}
	}
}

// TestPeerThatLostAcknowledgedEntriesIsRefused: committed entries that a peer acknowledged are never forgotten by it.
func TestPeerThatLostAcknowledgedEntriesIsRefused(t *testing.T) {
	g := gateOf(one, standing(50), true)
	n := &Network{acked: g.Acked}
	n.acked.recordAppend(two.ServerID(), &raft.AppendEntriesRequest{
		PrevLogEntry: 38, Entries: []*raft.Log{{Index: 39}, {Index: 40}}, LeaderCommitIndex: 39,
	})
	if got := g.Acked.Of(two); got != 39 {
		t.Fatalf("acknowledged %d, want 39: entry 40 was not committed", got)
	}
	for last, want := range map[uint64]Verdict{39: Accepted, 38: LostEntries} {
		if a := g.Judge(Preamble{Standing: standing(last), From: two, To: one}); a.Verdict != want {
			t.Errorf("dialing with last index %d: %s, want %s", last, a.Verdict, want)
		}
		err := g.judgeAnswer(two, Answer{Standing: standing(last), Self: two})
		if (err == nil) != (want == Accepted) || (err != nil && !IsRefused(err, LostEntries)) {
			t.Errorf("answering with last index %d: %v", last, err)
		}
		if err != nil && !strings.Contains(err.Error(), RejoinCommand(102)) {
			t.Errorf("%v does not say how the node comes back", err)
		}
	}
	n.acked.recordAppend(two.ServerID(), &raft.AppendEntriesRequest{}) // a heartbeat
	n.acked.recordSnapshot(two.ServerID(), &raft.InstallSnapshotRequest{LastLogIndex: 45})
	if got := g.Acked.Of(two); got != 45 {
		t.Errorf("acknowledged %d, want 45 of the snapshot", got)
	}
}

func TestAddressBookAsksInOrder(t *testing.T) {
	b := &AddressBook{Bootstrap: []string{"x:1", "y:1"}}
	check := func(want ...string) {
		t.Helper()
		got := b.Lookup(two)
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	}
	check("x:1", "y:1")
	b.SetInitial(map[PeerID]string{two: "init:1"})
	check("init:1")
	b.Registered = func(p PeerID) (string, bool) { return "registered:1", p == two }
	check("registered:1", "init:1")
	b.Overrides = map[int32]string{102: "override:1"}
	check("override:1")
}
