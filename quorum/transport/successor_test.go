package transport

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/fsm"
)

// reborn is a standing whose lineage continues that of standing from a metadata offset.
func reborn(fork int64) Standing {
	s := standing(1)
	s.Ancestors = []fsm.Ancestor{{UUID: fsm.UUID{77}, ForkOffset: 3}, {UUID: s.Lineage.UUID, ForkOffset: fork}}
	s.Lineage = fsm.LineageID{Number: 3, UUID: fsm.UUID{33}}
	return s
}

func TestAncestorsRoundTripUpToTheBound(t *testing.T) {
	s := reborn(40)
	for len(s.Ancestors) < ancestorsMax+3 {
		s.Ancestors = append(s.Ancestors, fsm.Ancestor{UUID: fsm.UUID{byte(len(s.Ancestors))}, ForkOffset: int64(len(s.Ancestors))})
	}
	p := Preamble{Standing: s, From: one, To: two}
	got, err := ReadPreamble(bytes.NewReader(p.Encode()))
	if err != nil || !reflect.DeepEqual(got.Ancestors, s.Ancestors[3:]) {
		t.Fatalf("%+v, %v; want the newest %d", got.Ancestors, err, ancestorsMax)
	}
	a := Answer{Standing: got.Standing, Verdict: LineageBehind, Self: two, Refusal: strings.Repeat("x", refusalBytesMax)}
	if got, err := ReadAnswer(bytes.NewReader(a.Encode())); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOnlyAClaimedDescendantSupersedes: neither a stranger, nor a lineage of the same birth, nor one that nobody has led.
func TestOnlyAClaimedDescendantSupersedes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Standing)
		want   bool
	}{
		"claimed descendant": {func(*Standing) {}, true},
		"not claimed":        {func(s *Standing) { s.Claimed = false }, false},
		"another cluster":    {func(s *Standing) { s.ClusterID = fsm.UUID{5}.String() }, false},
		"no cluster":         {func(s *Standing) { s.ClusterID = "" }, false},
		"twin":               {func(s *Standing) { s.Ancestors = s.Ancestors[:1] }, false},
		"same number":        {func(s *Standing) { s.Lineage.Number = 1 }, false},
		"the same lineage":   {func(s *Standing) { *s = standing(9) }, false},
	} {
		theirs := reborn(40)
		c.change(&theirs)
		fork, yes := standing(1).supersededBy(theirs)
		if yes != c.want || yes && fork != 40 {
			t.Errorf("%s: fork offset %d, superseded %t", name, fork, yes)
		}
	}
}

// TestSupersededDialerIsToldSo, whatever directory it means.
func TestSupersededDialerIsToldSo(t *testing.T) {
	p := Preamble{Standing: standing(10), From: two, To: PeerID{NodeID: 101, Directory: fsm.UUID{66}}}
	a := gateOf(one, reborn(40), true).Judge(p)
	if a.Verdict != LineageBehind || !strings.Contains(a.Refusal, "superseded at metadata offset 40") {
		t.Errorf("%+v", a)
	}
}
