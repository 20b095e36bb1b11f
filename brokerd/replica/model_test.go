package replica

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a dumb model of one partition: every replica's true end, the controller's committed ISR and every
// ISR that the controller might yet commit. It knows nothing of how the leader computes.
type world struct {
	t        *rapid.T
	now      time.Time
	l        *leader
	ends     map[int32]int64 // what each follower's log truly holds
	epochs   map[int32]int64 // registered broker epochs
	active   map[int32]bool
	isr      []int32 // as the controller committed
	epoch    int32   // partition epoch at the controller
	minISR   int
	wish     *wish
	lastHigh int64
}

const modelLag = 30 * time.Second

func newWorld(t *rapid.T) *world {
	n := rapid.IntRange(1, 5).Draw(t, "replicas")
	w := &world{t: t, now: time.Unix(1_700_000_000, 0), ends: map[int32]int64{}, epochs: map[int32]int64{}, active: map[int32]bool{}}
	var replicas []int32
	for id := int32(1); id <= int32(n); id++ {
		replicas = append(replicas, id)
		w.epochs[id], w.active[id] = 100+int64(id), true
		if id != 1 {
			w.ends[id] = 0
		}
	}
	w.isr = slices.Clone(replicas[:rapid.IntRange(1, n).Draw(t, "isr")])
	w.minISR = rapid.IntRange(1, 3).Draw(t, "min isr")
	w.l = newLeader(1, 7, committed{replicas: replicas, isr: w.isr}, 0, 0, w.now)
	return w
}

func (w *world) view() view {
	return view{now: w.now, lag: modelLag, minISR: w.minISR, member: func(id int32) (int64, bool) { return w.epochs[id], w.active[id] }}
}

func (w *world) follower(label string) (int32, bool) {
	ids := slices.Sorted(maps.Keys(w.ends))
	if len(ids) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(ids).Draw(w.t, label), true
}

func (w *world) take(x wish, ok bool) {
	if ok {
		w.wish = &x
	}
}

func (w *world) append() {
	w.l.localEnd(w.l.end + int64(rapid.IntRange(1, 5).Draw(w.t, "records")))
	w.l.advance(w.view())
}

// fetch lets a follower copy some records first; its fetch then tells where its log ends.
func (w *world) fetch() {
	id, ok := w.follower("fetcher")
	if !ok {
		return
	}
	w.ends[id] = rapid.Int64Range(w.ends[id], w.l.end).Draw(w.t, "end")
	v := w.view()
	if err := w.l.fetched(followerFetch{broker: id, brokerEpoch: w.epochs[id], offset: w.ends[id]}, v); err != nil {
		w.t.Fatalf("fetch of %d: %v", id, err)
	}
	w.take(w.l.maybeExpand(id, v))
	w.l.advance(v)
}

func (w *world) pass() {
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(w.t, "seconds")) * time.Second)
	w.take(w.l.maybeShrink(w.view()))
}

// restart gives a follower a new broker epoch; it loses nothing.
func (w *world) restart() {
	if id, ok := w.follower("restarts"); ok {
		w.epochs[id] += 1000
	}
}

func (w *world) toggle() {
	if id, ok := w.follower("toggles"); ok {
		w.active[id] = !w.active[id]
	}
}

// answer is the controller's answer to the wish that is out. It may also commit and not say so.
func (w *world) answer() {
	if w.wish == nil {
		return
	}
	x := *w.wish
	w.wish = nil
	if !rapid.Bool().Draw(w.t, "granted") || x.partitionEpoch != w.epoch {
		w.l.refused(x)
		return
	}
	w.isr = nil
	for _, m := range x.isr {
		w.isr = append(w.isr, m.broker)
	}
	w.epoch++
	w.l.commit(committed{replicas: w.replicas(), isr: w.isr, partitionEpoch: w.epoch}, w.now)
	w.l.advance(w.view())
}

// fence lets the controller take a follower out of the ISR by itself.
func (w *world) fence() {
	id, ok := w.follower("fenced")
	if !ok || !slices.Contains(w.isr, id) {
		return
	}
	w.isr = slices.DeleteFunc(slices.Clone(w.isr), func(x int32) bool { return x == id })
	w.epoch++
	w.wish = nil
	w.l.commit(committed{replicas: w.replicas(), isr: w.isr, partitionEpoch: w.epoch}, w.now)
	w.l.advance(w.view())
}

func (w *world) replicas() []int32 { return append([]int32{1}, slices.Sorted(maps.Keys(w.ends))...) }

// check holds the leader against the model: everything below the high watermark is on every member of each ISR
// that the controller has or may yet commit.
func (w *world) check(*rapid.T) {
	if w.l.high < w.lastHigh {
		w.t.Fatalf("I12: high watermark fell from %d to %d", w.lastHigh, w.l.high)
	}
	if w.l.high > w.l.end {
		w.t.Fatalf("I16: high watermark %d is beyond the end %d", w.l.high, w.l.end)
	}
	if w.l.high > w.lastHigh {
		w.checkAdvance()
	}
	w.lastHigh = w.l.high
	if !slices.Equal(w.l.isr.committed, w.isr) {
		w.t.Fatalf("leader's committed ISR %v, controller's %v", w.l.isr.committed, w.isr)
	}
}

func (w *world) checkAdvance() {
	if len(w.isr) < min(w.minISR, len(w.ends)+1) {
		w.t.Fatalf("high watermark moved to %d with ISR %v under min ISR %d", w.l.high, w.isr, w.minISR)
	}
	possible := [][]int32{w.isr}
	if w.wish != nil {
		var ids []int32
		for _, m := range w.wish.isr {
			ids = append(ids, m.broker)
		}
		possible = append(possible, ids)
	}
	for _, isr := range possible {
		for _, id := range isr {
			if id != 1 && w.ends[id] < w.l.high {
				w.t.Fatalf("I12, I15: high watermark %d, but %d of the possible ISR %v ends at %d", w.l.high, id, isr, w.ends[id])
			}
		}
	}
}

// TestHighWatermarkAgainstModel drives the leader by random appends, fetches, answers, fencings and time.
func TestHighWatermarkAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		step := func(f func()) func(*rapid.T) { return func(*rapid.T) { f() } }
		t.Repeat(map[string]func(*rapid.T){
			"": w.check, "append": step(w.append), "fetch": step(w.fetch), "pass": step(w.pass),
			"restart": step(w.restart), "toggle": step(w.toggle), "answer": step(w.answer), "fence": step(w.fence),
		})
	})
}
