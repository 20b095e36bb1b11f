package fsm

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/benbjohnson/immutable"
)

// Change is one thing in which two images differ, in an operator's words.
type Change struct {
	// Kind is "cluster", "quorum node", "broker", "topic", "partition", "config", "feature", "quota" or "recovery election".
	Kind string
	// Name of the object, for example "foo-3" for a partition or "topic foo" for a config.
	Name string
	// Field that differs; empty when the whole object is new or gone.
	Field string
	// Old and New values; Old is empty for what is new, New for what is gone.
	Old, New string
}

// String returns the change on one line, for example "partition foo-3: leader: 1 -> 2".
func (c Change) String() string {
	what := c.Kind + " " + c.Name + ": "
	switch {
	case c.Field == "" && c.Old == "":
		return what + "new: " + c.New
	case c.Field == "" && c.New == "":
		return what + "gone: " + c.Old
	}
	return fmt.Sprintf("%s%s: %s -> %s", what, c.Field, orNone(c.Old), orNone(c.New))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Changes yields what differs between two images, in a fixed order: the cluster's own state, quorum nodes, brokers,
// topics by name with their partitions, configs, features, quotas, recovery elections. It holds one topic's changes at a
// time, and what both images share is not walked. A topic is told by its id: under another name it is another.
func Changes(old, now *Image) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		w := &changeWalk{old: old, now: now, yield: yield}
		w.cluster()
		w.registrations()
		w.topics()
		w.settings()
	}
}

// changeWalk yields changes until the caller has enough.
type changeWalk struct {
	old, now *Image
	yield    func(Change) bool
	done     bool
}

// field yields a change of one field, if it is one.
func (w *changeWalk) field(kind, name, field string, old, now any) {
	if a, b := fmt.Sprint(old), fmt.Sprint(now); a != b {
		w.send(Change{Kind: kind, Name: name, Field: field, Old: a, New: b})
	}
}

func (w *changeWalk) send(c Change) {
	if !w.done {
		w.done = !w.yield(c)
	}
}

func (w *changeWalk) cluster() {
	a, b := w.old, w.now
	const kind = "cluster"
	w.field(kind, b.clusterID, "cluster id", a.clusterID, b.clusterID)
	w.field(kind, b.clusterID, "lineage", a.lineage.ID, b.lineage.ID)
	w.field(kind, b.clusterID, "confirmed", a.Confirmed(), b.Confirmed())
	w.field(kind, b.clusterID, "next metadata offset", a.nextOffset, b.nextOffset)
	w.field(kind, b.clusterID, "epoch base", a.epochBase, b.epochBase)
	w.field(kind, b.clusterID, "controller epoch", a.controllerEpoch, b.controllerEpoch)
	w.field(kind, b.clusterID, "claim offset", a.claimOffset, b.claimOffset)
	w.field(kind, b.clusterID, "next producer id", a.nextProducerID, b.nextProducerID)
}

func (w *changeWalk) registrations() {
	merge(w.old.controllers, w.now.controllers, func(id int32, a, b *Controller) {
		if a != b {
			w.object("quorum node", fmt.Sprint(id), a.words(), b.words())
		}
	})
	merge(w.old.brokers, w.now.brokers, func(id int32, a, b *Broker) {
		if a != b {
			w.object("broker", fmt.Sprint(id), a.words(), b.words())
		}
	})
}

// words are the fields of an object, each with its value, in a fixed order; nil for an object that is not there.
type words [][2]string

func (w words) String() string {
	var parts []string
	for _, f := range w {
		if f[1] != "" {
			parts = append(parts, f[0]+" "+f[1])
		}
	}
	return strings.Join(parts, ", ")
}

// object yields an object that is new or gone as a whole, and otherwise its fields that differ.
func (w *changeWalk) object(kind, name string, old, now words) {
	switch {
	case old == nil:
		w.send(Change{Kind: kind, Name: name, New: now.String()})
	case now == nil:
		w.send(Change{Kind: kind, Name: name, Old: old.String()})
	default:
		for i := range now {
			w.setting(kind, name, now[i][0], old[i][1], now[i][1])
		}
	}
}

func (n *Controller) words() words {
	if n == nil {
		return nil
	}
	return words{
		{"directory", n.DirectoryID.String()}, {"incarnation", n.IncarnationID.String()},
		{"listeners", strings.TrimSpace(describeListeners(n.Listeners))}, {"features", featureWords(n.Features)},
	}
}

func (b *Broker) words() words {
	if b == nil {
		return nil
	}
	return words{
		{"broker epoch", fmt.Sprint(b.Epoch)}, {"state", b.state()}, {"incarnation", b.IncarnationID.String()},
		{"listeners", strings.TrimSpace(describeListeners(b.Listeners))}, {"rack", strings.TrimSpace(describeRack(b))},
		{"directories", listWords(b.Directories)}, {"features", featureWords(b.Features)},
	}
}

func featureWords(list []Feature) string {
	var parts []string
	for _, f := range list {
		parts = append(parts, fmt.Sprintf("%s %d..%d", f.Name, f.Min, f.Max))
	}
	return strings.Join(parts, ", ")
}

// listWords is a list, or nothing for an empty one.
func listWords[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprint(list)
}

// topics walks the names of both images together.
func (w *changeWalk) topics() {
	a, b := w.old.names.Iterator(), w.now.names.Iterator()
	for !w.done && (!a.Done() || !b.Done()) {
		switch compareHeads(a, b) {
		case -1:
			_, id, _ := a.Next()
			w.topic(id, UUID{})
		case 1:
			_, id, _ := b.Next()
			w.topic(UUID{}, id)
		default:
			_, was, _ := a.Next()
			_, is, _ := b.Next()
			w.topic(was, is)
		}
	}
}

// compareHeads tells which of two iterators has the smaller key next; one that is done has the greatest.
func compareHeads(a, b *immutable.SortedMapIterator[string, UUID]) int {
	switch {
	case b.Done():
		return -1
	case a.Done():
		return 1
	}
	x, y := head(a), head(b)
	return strings.Compare(x, y)
}

// head is the next key, which stays the next.
func head(it *immutable.SortedMapIterator[string, UUID]) string {
	ahead := *it
	key, _, _ := ahead.Next()
	return key
}

// topic yields what differs in the topics that have one name, the zero id for none.
func (w *changeWalk) topic(was, is UUID) {
	a, _ := w.old.topics.Get(was)
	b, _ := w.now.topics.Get(is)
	if was != is && a != nil {
		w.send(Change{Kind: "topic", Name: a.name, Old: topicWords(a)})
	}
	if was != is && b != nil {
		w.send(Change{Kind: "topic", Name: b.name, New: topicWords(b)})
	}
	if was != is || a == b {
		return
	}
	w.field("topic", b.name, "partitions", a.count, b.count)
	d := diffTopic(a, b)
	if d == nil {
		return
	}
	for _, p := range d.Partitions {
		w.object("partition", b.name+"-"+strconv.Itoa(int(p.Partition)), p.Old.words(), p.New.words())
	}
}

func topicWords(t *Topic) string { return fmt.Sprintf("id %s, %d partitions", t.id, t.count) }

func (p *Partition) words() words {
	if p == nil {
		return nil
	}
	return words{
		{"leader", leaderWord(p.Leader)}, {"leader epoch", strconv.Itoa(int(p.LeaderEpoch))}, {"partition epoch", strconv.Itoa(int(p.PartitionEpoch))},
		{"replicas", listWords(p.Replicas)}, {"isr", listWords(p.ISR)}, {"adding", listWords(p.Adding)}, {"removing", listWords(p.Removing)},
		{"elr", listWords(p.ELR)}, {"last known elr", listWords(p.LastKnownELR)}, {"directories", listWords(p.Directories)},
		{"recovering", flagWord(p.Recovering)}, {"awaiting inventory", flagWord(p.AwaitingInventory)},
	}
}

func leaderWord(id int32) string {
	if id == NoLeader {
		return "none"
	}
	return strconv.Itoa(int(id))
}

func flagWord(set bool) string {
	if !set {
		return ""
	}
	return "yes"
}

func (w *changeWalk) settings() {
	merge(w.old.configs, w.now.configs, func(r ConfigResource, a, b []ConfigEntry) {
		if !slices.Equal(a, b) {
			w.config(r)
		}
	})
	merge(w.old.features, w.now.features, func(name string, a, b int32) {
		w.field("feature", name, "level", a, b)
	})
	merge(w.old.quotas, w.now.quotas, func(id quotaID, a, b float64) {
		w.setting("quota", id.entity.String(), id.key, quotaWord(a), quotaWord(b))
	})
	merge(w.old.recoveries, w.now.recoveries, func(id PartitionID, a, b *RecoveryElection) {
		w.setting("recovery election", fmt.Sprintf("%s-%d", id.Topic, id.Partition), "election", a.word(), b.word())
	})
}

func (w *changeWalk) config(r ConfigResource) {
	values := make(map[string][2]string)
	keys := make([]string, 0)
	for side, img := range []*Image{w.old, w.now} {
		for _, e := range img.Configs(r) {
			v, seen := values[e.Key]
			if !seen {
				keys = append(keys, e.Key)
			}
			v[side] = fmt.Sprintf("%q", e.Value)
			values[e.Key] = v
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		w.setting("config", r.String(), key, values[key][0], values[key][1])
	}
}

// setting yields a value that was set, changed or removed.
func (w *changeWalk) setting(kind, name, key, old, now string) {
	if old != now {
		w.send(Change{Kind: kind, Name: name, Field: key, Old: old, New: now})
	}
}

func quotaWord(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprint(v)
}

func (e *RecoveryElection) word() string {
	if e == nil {
		return ""
	}
	return e.String()
}
