package controller

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/skiffmq/skiff/fsm"
)

// cluster brings up brokers with racks; fenced ones stay registered.
func cluster(t testing.TB, racks map[int32]string, fenced ...int32) *fsm.Image {
	w := newWorld(t)
	w.racks = racks
	ids := make([]int32, 0, len(racks))
	for id := range racks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if racks[id] == "" {
			delete(w.racks, id)
		}
		w.up(id)
	}
	for _, id := range fenced {
		w.setState(id, stateFenced, false)
	}
	return w.img
}

func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// TestPlacementIsEven: 200 partitions, two replicas, four brokers: every broker leads 50, every ordered pair occurs.
func TestPlacementIsEven(t *testing.T) {
	for seed := range uint64(20) {
		p := newPlacer(cluster(t, map[int32]string{0: "", 1: "", 2: "", 3: ""}), dice(seed))
		leaders, pairs := map[int32]int{}, map[[2]int32]int{}
		for range 200 {
			r := p.place(2)
			leaders[r[0]]++
			pairs[[2]int32{r[0], r[1]}]++
		}
		for id := range int32(4) {
			if leaders[id] != 50 {
				t.Errorf("seed %d: broker %d leads %d of 200", seed, id, leaders[id])
			}
		}
		if len(pairs) != 12 {
			t.Errorf("seed %d: %d pairs of 12 occur", seed, len(pairs))
		}
		for pair, n := range pairs {
			if n < 5 || n > 30 {
				t.Errorf("seed %d: pair %v occurs %d times of 200", seed, pair, n)
			}
		}
	}
}

// TestPlacementSpreadsOverRacks: with as many racks as replicas each replica is in another rack, and the leaders
// alternate between equal racks.
func TestPlacementSpreadsOverRacks(t *testing.T) {
	racks := map[int32]string{1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
	p := newPlacer(cluster(t, racks), dice(7))
	leaders := map[string]int{}
	for range 60 {
		r := p.place(3)
		used := map[string]bool{}
		for _, id := range r {
			used[racks[id]] = true
		}
		if len(used) != 3 {
			t.Errorf("replicas %v are in %d racks", r, len(used))
		}
		leaders[racks[r[0]]]++
	}
	for rack, n := range leaders {
		if n != 20 {
			t.Errorf("rack %s has %d leaders of 60", rack, n)
		}
	}
}

// TestPlacementOfOneBroker: one broker takes any number of partitions.
func TestPlacementOfOneBroker(t *testing.T) {
	p := newPlacer(cluster(t, map[int32]string{9: ""}), dice(1))
	for range 10 {
		if r := p.place(1); !slices.Equal(r, []int32{9}) {
			t.Fatalf("replicas %v", r)
		}
	}
}

// TestPlacementRefusesWhatCannotBe, with the numbers.
func TestPlacementRefusesWhatCannotBe(t *testing.T) {
	for _, row := range []struct {
		racks  map[int32]string
		fenced []int32
		factor int
		want   string
	}{
		{nil, nil, 1, "no broker is registered"},
		{map[int32]string{1: "", 2: ""}, []int32{1, 2}, 1, "none of the 2 usable brokers is up"},
		{map[int32]string{1: "", 2: ""}, nil, 3, "replication factor 3 cannot be reached with 2 usable brokers"},
		{map[int32]string{1: ""}, nil, 0, "replication factor 0 is not positive"},
	} {
		err := newPlacer(cluster(t, row.racks, row.fenced...), dice(1)).check(row.factor)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("got %v, want %q", err, row.want)
		}
	}
}

// TestPlacementKeepsItsPromises: whatever the cluster, it ends, replicas are distinct, and the first is up.
func TestPlacementKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := rapid.IntRange(1, 9).Draw(t, "brokers")
		p := &placer{rand: dice(rapid.Uint64().Draw(t, "seed"))}
		up := map[int32]bool{}
		for id := range int32(brokers) {
			b := &fsm.Broker{ID: id, Rack: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "rack")}
			b.HasRack = b.Rack != ""
			k := p.rackOf(b)
			p.usable++
			if id > 0 && rapid.Bool().Draw(t, "fenced") {
				k.fenced.ids = append(k.fenced.ids, id)
				continue
			}
			up[id] = true
			p.unfenced++
			k.unfenced.ids = append(k.unfenced.ids, id)
		}
		factor := rapid.IntRange(1, brokers).Draw(t, "factor")
		if err := p.check(factor); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 50).Draw(t, "partitions") {
			r := p.place(factor)
			sorted := slices.Clone(r)
			slices.Sort(sorted)
			if len(slices.Compact(sorted)) != factor {
				t.Fatalf("replicas %v are not %d brokers", r, factor)
			}
			if !up[r[0]] {
				t.Fatalf("the first of the replicas %v is down", r)
			}
		}
	})
}

// TestPlacementIsDecidedByTheDice: equal dice, equal placement.
func TestPlacementIsDecidedByTheDice(t *testing.T) {
	img := cluster(t, map[int32]string{1: "a", 2: "a", 3: "b", 4: "", 5: ""}, 5)
	a, b := newPlacer(img, dice(3)), newPlacer(img, dice(3))
	for range 100 {
		if x, y := a.place(3), b.place(3); !slices.Equal(x, y) {
			t.Fatalf("%v and %v", x, y)
		}
	}
}
