package fsm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// model is an image as a beginner would write it: maps of plain values, every question answered by a full scan.
// It judges nothing; what it is compared with does.
type model struct {
	topics     map[UUID]string
	partitions map[PartitionID]Partition
	configs    map[string]string
}

func newModel() *model {
	return &model{topics: make(map[UUID]string), partitions: make(map[PartitionID]Partition), configs: make(map[string]string)}
}

func (m *model) clone() *model {
	return &model{topics: maps.Clone(m.topics), partitions: maps.Clone(m.partitions), configs: maps.Clone(m.configs)}
}

func (m *model) fold(r record) {
	switch k := r.GetKind().(type) {
	case *metadatav1.Record_Topic:
		m.topics[UUID(k.Topic.GetTopicId())] = k.Topic.GetName()
	case *metadatav1.Record_RemoveTopic:
		m.remove(UUID(k.RemoveTopic.GetTopicId()))
	case *metadatav1.Record_Partition:
		p, _ := partitionFromRecord(k.Partition)
		m.partitions[PartitionID{UUID(k.Partition.GetTopicId()), k.Partition.GetPartitionId()}] = p
	case *metadatav1.Record_PartitionChange:
		m.change(k.PartitionChange)
	case *metadatav1.Record_ClearElr:
		m.clearELR()
	case *metadatav1.Record_Config:
		key := fmt.Sprintf("%d/%s/%s", k.Config.GetResourceType(), k.Config.GetResourceName(), k.Config.GetKey())
		if delete(m.configs, key); k.Config.Value != nil {
			m.configs[key] = k.Config.GetValue()
		}
	}
}

// clearELR is ClearElr without a topic.
func (m *model) clearELR() {
	for id, p := range m.partitions {
		if len(p.ISR) > 0 && len(p.ELR)+len(p.LastKnownELR) > 0 {
			p.ELR, p.LastKnownELR = nil, nil
			p.PartitionEpoch++
			m.partitions[id] = p
		}
	}
}

func (m *model) remove(id UUID) {
	prefix := fmt.Sprintf("%d/%s/", metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, m.topics[id])
	maps.DeleteFunc(m.configs, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	maps.DeleteFunc(m.partitions, func(p PartitionID, _ Partition) bool { return p.Topic == id })
	delete(m.topics, id)
}

func (m *model) change(c *metadatav1.PartitionChange) {
	id := PartitionID{UUID(c.GetTopicId()), c.GetPartitionId()}
	p := m.partitions[id]
	p.PartitionEpoch++
	if c.Leader != nil {
		p.Leader = c.GetLeader()
		p.LeaderEpoch++
	}
	if c.LeaderEpoch != nil {
		p.LeaderEpoch = c.GetLeaderEpoch()
	}
	if c.Isr != nil {
		p.ISR = c.GetIsr().GetIds()
	}
	if c.Replicas != nil {
		p.Replicas = c.GetReplicas().GetIds()
	}
	if c.AddingReplicas != nil {
		p.Adding = c.GetAddingReplicas().GetIds()
	}
	if c.EligibleLeaderReplicas != nil {
		p.ELR = c.GetEligibleLeaderReplicas().GetIds()
	}
	if c.LastKnownElr != nil {
		p.LastKnownELR = c.GetLastKnownElr().GetIds()
	}
	if c.Recovering != nil {
		p.Recovering = c.GetRecovering()
	}
	if c.AwaitingInventory != nil {
		p.AwaitingInventory = c.GetAwaitingInventory()
	}
	if c.Directories != nil {
		p.Directories = nil // the histories only clear them
	}
	m.partitions[id] = p
}

// ids returns the partitions that match, in the order of the image's indexes.
func (m *model) ids(match func(Partition) bool) []PartitionID {
	var list []PartitionID
	for id, p := range m.partitions {
		if match(p) {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, comparePartitionIDs)
	return list
}

func comparePartitionIDs(a, b PartitionID) int {
	if c := byUUID(a.Topic, b.Topic); c != 0 {
		return c
	}
	return byID(a.Partition, b.Partition)
}

// mustMatch compares every answer of the image with the model's.
func (m *model) mustMatch(tb reporter, img *Image) {
	tb.Helper()
	if img.NumTopics() != len(m.topics) || img.NumPartitions() != len(m.partitions) {
		tb.Fatalf("%d topics, %d partitions, want %d, %d", img.NumTopics(), img.NumPartitions(), len(m.topics), len(m.partitions))
	}
	for id, want := range m.partitions {
		if got, ok := img.Partition(id); !ok || !got.equal(&want) {
			tb.Fatalf("%v is %s, want %s", id, got, want)
		}
	}
	same := func(what string, n int, seq func(func(PartitionID) bool), match func(Partition) bool) {
		want := m.ids(match)
		if got := slices.Collect(seq); n != len(want) || !slices.Equal(got, want) {
			tb.Fatalf("%s: %d: %v, want %v", what, n, got, want)
		}
	}
	for b := int32(0); b < 8; b++ {
		same("partitions of", img.NumReplicasOf(b), img.PartitionsOf(b), func(p Partition) bool { return slices.Contains(p.Replicas, b) })
		same("led by", img.NumLedBy(b), img.LedBy(b), func(p Partition) bool { return p.Leader == b })
	}
	same("leaderless", img.NumLeaderless(), img.Leaderless(), func(p Partition) bool { return p.Leader == NoLeader })
	same("imbalanced", img.NumImbalanced(), img.Imbalanced(), func(p Partition) bool { return p.Leader != p.Replicas[0] })
	m.mustMatchNames(tb, img)
}

func (m *model) mustMatchNames(tb reporter, img *Image) {
	tb.Helper()
	for id, name := range m.topics {
		t, ok := img.TopicByName(name)
		if !ok || t.ID() != id {
			tb.Fatalf("topic %s has another id than %s", name, id)
		}
		want := false
		for _, other := range m.topics {
			want = want || (other != name && strings.ReplaceAll(other, ".", "_") == strings.ReplaceAll(name, ".", "_"))
		}
		if other, got := img.TopicNameCollides(name); got != want || other == name {
			tb.Fatalf("topic %s collides: %t with %q, want %t", name, got, other, want)
		}
	}
	configs := 0
	for key, want := range m.configs {
		parts := strings.SplitN(key, "/", 3)
		r := BrokerResource(parts[1])
		if parts[0] == fmt.Sprint(int32(metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC)) {
			r = TopicResource(parts[1])
		}
		if got, ok := img.ConfigValue(r, parts[2]); !ok || got != want {
			tb.Fatalf("config %s is %q, want %q", key, got, want)
		}
		configs++
	}
	got := 0
	for it := img.configs.Iterator(); !it.Done(); {
		_, entries, _ := it.Next()
		got += len(entries)
	}
	if got != configs {
		tb.Fatalf("%d configs, want %d", got, configs)
	}
}

// local is Delta.Local by comparing everything before with everything after.
func (m *model) local(before *model, broker int32) string {
	var lines []string
	for id, old := range before.partitions {
		now, ok := m.partitions[id]
		if slices.Contains(old.Replicas, broker) && (!ok || !slices.Contains(now.Replicas, broker)) {
			lines = append(lines, fmt.Sprintf("%v deleted", id))
		}
	}
	for id, now := range m.partitions {
		old, existed := before.partitions[id]
		was := existed && slices.Contains(old.Replicas, broker)
		if !slices.Contains(now.Replicas, broker) || (was && old.PartitionEpoch == now.PartitionEpoch) {
			continue
		}
		role := "followed"
		if now.Leader == broker {
			role = "led"
		}
		lines = append(lines, fmt.Sprintf("%v %s %t", id, role, !was || old.LeaderEpoch != now.LeaderEpoch))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func localText(c LocalChanges) string {
	var lines []string
	for _, l := range c.Deleted {
		lines = append(lines, fmt.Sprintf("%v deleted", PartitionID{l.Topic, l.Partition}))
	}
	for _, l := range c.Led {
		lines = append(lines, fmt.Sprintf("%v led %t", PartitionID{l.Topic, l.Partition}, l.NewLeaderEpoch))
	}
	for _, l := range c.Followed {
		lines = append(lines, fmt.Sprintf("%v followed %t", PartitionID{l.Topic, l.Partition}, l.NewLeaderEpoch))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
