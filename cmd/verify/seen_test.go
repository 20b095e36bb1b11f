package verify

import (
	"slices"
	"testing"
)

func TestCheckSeenFindsEachDoctoredView(t *testing.T) {
	for name, c := range map[string]struct {
		doctor func(seen, kept []Read) ([]Read, []Read)
		want   []Kind
	}{
		"honest":            {func(s, k []Read) ([]Read, []Read) { return s, k }, nil},
		"still behind":      {func(s, k []Read) ([]Read, []Read) { return s[:5], k }, nil},
		"begun in between":  {func(s, k []Read) ([]Read, []Read) { return s[3:], k }, nil},
		"gone from the end": {func(s, k []Read) ([]Read, []Read) { return s, k[:len(k)-1] }, []Kind{Vanished}},
		"another in its place": {func(s, k []Read) ([]Read, []Read) {
			k[4].ID = ID{Producer: 9, Sequence: 9}
			return s, k
		}, []Kind{Vanished}},
		"given twice":  {func(s, k []Read) ([]Read, []Read) { return slices.Insert(s, 4, s[3]), k }, []Kind{StepBack}},
		"given again":  {func(s, k []Read) ([]Read, []Read) { return append(s[:8:8], s[0:8]...), k }, []Kind{StepBack}},
		"one left out": {func(s, k []Read) ([]Read, []Read) { return slices.Delete(s, 4, 5), k }, []Kind{Gap}},
		"changed on the way": {func(s, k []Read) ([]Read, []Read) {
			s[2].Damage = "value checksum differs"
			return s, k
		}, []Kind{Changed}},
	} {
		t.Run(name, func(t *testing.T) {
			_, seen := honest()
			_, kept := honest()
			seen, kept = c.doctor(seen, kept)
			if got := kinds(CheckSeen("consumer 0", seen, kept)); !slices.Equal(got, c.want) {
				t.Fatalf("violations %v, want %v", got, c.want)
			}
		})
	}
}
