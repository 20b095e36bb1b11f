package fsm

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/benbjohnson/immutable"
)

// The derived indexes (I11) answer "which partitions" by topic: each counts the partitions of a topic that
// belong to it, and a reader scans those topics. An index by partition would cost more than the partitions.

// hosted counts what one broker has of one topic.
type hosted struct {
	replicas, led int32
}

// hostIndex is what one broker has. It is immutable.
type hostIndex struct {
	// topics that the broker has a replica of. Invariant: every count of replicas is above 0.
	topics *immutable.SortedMap[UUID, hosted]
	// total over topics.
	replicas, led int
}

// index is every derived index of an image; a copy is O(1).
type index struct {
	hosts *immutable.SortedMap[int32, *hostIndex]
	// leaderless and imbalanced count the partitions without a leader, and those led by another than the first
	// replica, of each topic that has any. A leaderless partition is imbalanced too.
	leaderless, imbalanced *immutable.SortedMap[UUID, int32]
	// awaiting counts the partitions of each topic that await inventories; they are leaderless too.
	awaiting                                  *immutable.SortedMap[UUID, int32]
	numLeaderless, numImbalanced, numAwaiting int
	partitions                                int
	// collisions has the names that are equal but for '.' and '_', by their normal form, sorted.
	collisions *immutable.SortedMap[string, []string]
}

type compareFunc[K any] func(a, b K) int

// Compare implements immutable.Comparer.
func (f compareFunc[K]) Compare(a, b K) int { return f(a, b) }

var (
	byUUID      = compareFunc[UUID](func(a, b UUID) int { return bytes.Compare(a[:], b[:]) })
	byID        = compareFunc[int32](cmp.Compare[int32])
	byName      = compareFunc[string](cmp.Compare[string])
	byResource  = compareFunc[ConfigResource](compareResources)
	byPartition = compareFunc[PartitionID](comparePartitions)
)

func newIndex() index {
	return index{
		hosts:      immutable.NewSortedMap[int32, *hostIndex](byID),
		leaderless: immutable.NewSortedMap[UUID, int32](byUUID),
		imbalanced: immutable.NewSortedMap[UUID, int32](byUUID),
		awaiting:   immutable.NewSortedMap[UUID, int32](byUUID),
		collisions: immutable.NewSortedMap[string, []string](byName),
	}
}

// indexChange collects what an entry changes in the indexes for one topic, so that each count is written once.
type indexChange struct {
	hosts                                        map[int32]hosted
	leaderless, imbalanced, awaiting, partitions int32
}

// count adds (sign 1) or removes (sign -1) one partition.
func (c *indexChange) count(ch *chunk, i int, sign int32) {
	c.partitions += sign
	leader := ch.leader(i)
	ch.eachReplica(i, func(broker int32) {
		h := c.hosts[broker]
		h.replicas += sign
		if broker == leader {
			h.led += sign
		}
		c.hosts[broker] = h
	})
	if leader == NoLeader {
		c.leaderless += sign
	}
	if ch.awaits(i) {
		c.awaiting += sign
	}
	if leader != ch.preferred(i) {
		c.imbalanced += sign
	}
}

// change applies what was collected for one topic.
func (x *index) change(topic UUID, c *indexChange) {
	for broker, h := range c.hosts {
		if h != (hosted{}) {
			x.changeHost(broker, topic, h)
		}
	}
	x.leaderless = addCount(x.leaderless, topic, c.leaderless)
	x.imbalanced = addCount(x.imbalanced, topic, c.imbalanced)
	x.awaiting = addCount(x.awaiting, topic, c.awaiting)
	x.numLeaderless += int(c.leaderless)
	x.numAwaiting += int(c.awaiting)
	x.numImbalanced += int(c.imbalanced)
	x.partitions += int(c.partitions)
}

func (x *index) changeHost(broker int32, topic UUID, by hosted) {
	host := hostIndex{topics: immutable.NewSortedMap[UUID, hosted](byUUID)}
	if old, ok := x.hosts.Get(broker); ok {
		host = *old
	}
	now, _ := host.topics.Get(topic)
	now.replicas += by.replicas
	now.led += by.led
	if now == (hosted{}) {
		host.topics = host.topics.Delete(topic)
	} else {
		host.topics = host.topics.Set(topic, now)
	}
	host.replicas += int(by.replicas)
	host.led += int(by.led)
	if host.topics.Len() == 0 {
		x.hosts = x.hosts.Delete(broker)
		return
	}
	x.hosts = x.hosts.Set(broker, &host)
}

func addCount(m *immutable.SortedMap[UUID, int32], topic UUID, by int32) *immutable.SortedMap[UUID, int32] {
	if by == 0 {
		return m
	}
	now, _ := m.Get(topic)
	if now+by == 0 {
		return m.Delete(topic)
	}
	return m.Set(topic, now+by)
}

// addName takes a topic's name into the index of collisions.
func (x *index) addName(name string) {
	normal, may := normalName(name)
	if !may {
		return
	}
	names, _ := x.collisions.Get(normal)
	names = append(slices.Clone(names), name)
	slices.Sort(names)
	x.collisions = x.collisions.Set(normal, names)
}

// removeName is the reverse of addName.
func (x *index) removeName(name string) {
	normal, may := normalName(name)
	if !may {
		return
	}
	names, _ := x.collisions.Get(normal)
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
	if len(names) == 0 {
		x.collisions = x.collisions.Delete(normal)
		return
	}
	x.collisions = x.collisions.Set(normal, names)
}

// indexBuilder computes the indexes of a whole image. It writes in place, which index cannot.
type indexBuilder struct {
	index
	hosts map[int32]*hostBuilder
}

type hostBuilder struct {
	topics        *immutable.SortedMapBuilder[UUID, hosted]
	replicas, led int
}

func newIndexBuilder() *indexBuilder {
	return &indexBuilder{index: newIndex(), hosts: make(map[int32]*hostBuilder)}
}

// addTopic takes in a whole topic; it must be called once for each.
func (x *indexBuilder) addTopic(t *Topic) {
	change := &indexChange{hosts: make(map[int32]hosted)}
	for i := range t.count {
		c, at := t.at(i)
		change.count(c, at, 1)
	}
	for broker, h := range change.hosts {
		host, ok := x.hosts[broker]
		if !ok {
			host = &hostBuilder{topics: immutable.NewSortedMapBuilder[UUID, hosted](byUUID)}
			x.hosts[broker] = host
		}
		host.topics.Set(t.id, h)
		host.replicas += int(h.replicas)
		host.led += int(h.led)
	}
	change.hosts = nil
	x.change(t.id, change)
	x.addName(t.name)
}

// finish returns the indexes; the builder must not be used after it.
func (x *indexBuilder) finish() index {
	for broker, h := range x.hosts {
		x.index.hosts = x.index.hosts.Set(broker, &hostIndex{topics: h.topics.Map(), replicas: h.replicas, led: h.led})
	}
	return x.index
}
