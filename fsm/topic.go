package fsm

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxTopicNameBytes is Kafka's limit: a name and a partition number must fit a directory's name.
const maxTopicNameBytes = 249

// Topic is a topic with its partitions. It is immutable.
type Topic struct {
	id     UUID
	name   string
	count  int32
	chunks []*chunk
}

// ID returns the topic's id, which never names another topic (I10).
func (t *Topic) ID() UUID { return t.id }

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// NumPartitions returns the number of partitions; their ids are 0 to one less.
func (t *Topic) NumPartitions() int32 { return t.count }

// Partition returns the state of partition i, false if there is none.
func (t *Topic) Partition(i int32) (Partition, bool) {
	if i < 0 || i >= t.count {
		return Partition{}, false
	}
	return t.get(i), true
}

// Partitions yields every partition in order of its id.
func (t *Topic) Partitions() iter.Seq2[int32, Partition] {
	return func(yield func(int32, Partition) bool) {
		for i := range t.count {
			if !yield(i, t.get(i)) {
				return
			}
		}
	}
}

func (t *Topic) get(i int32) Partition {
	return t.chunks[i/chunkPartitions].get(int(i % chunkPartitions))
}

// at returns the chunk of partition i and its place there.
func (t *Topic) at(i int32) (*chunk, int) {
	return t.chunks[i/chunkPartitions], int(i % chunkPartitions)
}

// clone copies the topic for one entry to write to; the chunks are still shared.
func (t *Topic) clone() *Topic {
	c := *t
	c.chunks = slices.Clone(t.chunks)
	return &c
}

// CheckTopicName says why name cannot be a topic's name, nil if it can. The rules are Kafka's.
func CheckTopicName(name string) error {
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("topic name %q is not allowed", name)
	}
	if len(name) > maxTopicNameBytes {
		return fmt.Errorf("topic name has %d characters, at most %d", len(name), maxTopicNameBytes)
	}
	for _, r := range name {
		if !topicNameRune(r) {
			return fmt.Errorf("topic name %q has a character other than ASCII letters, digits, '.', '_' and '-'", name)
		}
	}
	return nil
}

func topicNameRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return true
	default:
		return r == '.' || r == '_' || r == '-'
	}
}

// normalName is the name as metrics spell it, where '.' and '_' are one character. Only a name that has one of
// them can collide with another.
func normalName(name string) (string, bool) {
	if !strings.ContainsAny(name, "._") {
		return "", false
	}
	return strings.ReplaceAll(name, ".", "_"), true
}
