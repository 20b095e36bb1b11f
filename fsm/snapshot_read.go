package fsm

import (
	"errors"
	"fmt"
	"io"

	"github.com/benbjohnson/immutable"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// ReadSnapshot reads a stream of WriteSnapshot to its end, verifies frames, counts and digest, and runs Check on
// what it read. It holds one frame of at most 2 MiB besides the image. The stream must end after the trailer.
func ReadSnapshot(r io.Reader) (*Image, error) {
	l := newLoader()
	s := newSnapshotStream(l.record)
	if err := readFrames(r, s); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	img, err := l.finish(s)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return img, nil
}

// readFrames splits a stream into frames up to the trailer and the end behind it.
func readFrames(r io.Reader, s *snapshotStream) error {
	head := make([]byte, preambleBytes)
	if err := readFull(r, head); err != nil {
		return err
	}
	if err := checkPreamble(head); err != nil {
		return err
	}
	var payload []byte
	for !s.done {
		head = head[:frameHeadBytes]
		if err := readFull(r, head); err != nil {
			return err
		}
		h, err := parseFrameHead(head)
		if err != nil {
			return err
		}
		if payload, err = readPayload(r, payload, int(h.length)); err != nil {
			return err
		}
		if err := h.verify(payload); err != nil {
			return err
		}
		if err := s.frame(h.kind, payload); err != nil {
			return err
		}
	}
	if n, err := io.ReadFull(r, head[:1]); n != 0 {
		return errors.New("bytes after the trailer")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the trailer: %w", err)
	}
	return nil
}

// readPayload reads n bytes into buf, grown as bytes arrive rather than as their head promises.
func readPayload(r io.Reader, buf []byte, n int) ([]byte, error) {
	const step = 64 << 10
	buf = buf[:0]
	for len(buf) < n {
		from := len(buf)
		to := min(n, from+step)
		if to > cap(buf) {
			buf = append(buf, make([]byte, to-from)...)
		} else {
			buf = buf[:to]
		}
		if err := readFull(r, buf[from:to]); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

func readFull(r io.Reader, buf []byte) error {
	_, err := io.ReadFull(r, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrSnapshotTruncated
	}
	return err
}

// loader builds an image from the records of a snapshot. It takes states, not changes: what may follow on what
// was judged when the facts were folded, and Check judges the result.
type loader struct {
	brokers     *immutable.SortedMapBuilder[int32, *Broker]
	controllers *immutable.SortedMapBuilder[int32, *Controller]
	topics      *immutable.MapBuilder[UUID, *Topic]
	names       *immutable.SortedMapBuilder[string, UUID]
	configs     map[ConfigResource][]ConfigEntry
	index       index
	// topic is the one whose partitions are being read.
	topic *Topic
}

func newLoader() *loader {
	return &loader{
		brokers:     immutable.NewSortedMapBuilder[int32, *Broker](byID),
		controllers: immutable.NewSortedMapBuilder[int32, *Controller](byID),
		topics:      immutable.NewMapBuilder[UUID, *Topic](uuidHasher{}),
		names:       immutable.NewSortedMapBuilder[string, UUID](byName),
		configs:     make(map[ConfigResource][]ConfigEntry),
		index:       newIndex(),
	}
}

func (l *loader) record(r *metadatav1.Record) error {
	switch k := r.GetKind().(type) {
	case *metadatav1.Record_ControllerRegistered:
		n, err := controllerFromRecord(k.ControllerRegistered)
		if err != nil {
			return err
		}
		l.controllers.Set(n.ID, n)
	case *metadatav1.Record_RegisterBroker:
		b, err := brokerFromRecord(k.RegisterBroker)
		if err != nil {
			return err
		}
		l.brokers.Set(b.ID, b)
	case *metadatav1.Record_Topic:
		return l.beginTopic(k.Topic)
	case *metadatav1.Record_Partition:
		return l.partition(k.Partition)
	case *metadatav1.Record_Config:
		return l.config(k.Config)
	}
	return nil
}

func (l *loader) beginTopic(r *metadatav1.Topic) error {
	l.endTopic()
	id, err := requireUUID("topic id", r.GetTopicId())
	if err != nil {
		return err
	}
	if _, exists := l.topics.Get(id); exists {
		return violation(10, "topic "+r.GetName(), "id %s names another topic", id)
	}
	l.topic = &Topic{id: id, name: r.GetName()}
	return nil
}

func (l *loader) partition(r *metadatav1.Partition) error {
	id, err := requireUUID("topic id", r.GetTopicId())
	if err != nil {
		return err
	}
	t := l.topic
	if t == nil || t.id != id || t.count != r.GetPartitionId() {
		return fmt.Errorf("partition %d of topic %s is out of order", r.GetPartitionId(), id)
	}
	p, err := partitionFromRecord(r)
	if err != nil {
		return err
	}
	if t.count%chunkPartitions == 0 {
		t.chunks = append(t.chunks, &chunk{})
	}
	t.chunks[len(t.chunks)-1].set(int(t.count%chunkPartitions), &p)
	t.count++
	return nil
}

// endTopic stores the topic that was being read.
func (l *loader) endTopic() {
	t := l.topic
	if t == nil {
		return
	}
	l.topic = nil
	t.compact()
	l.topics.Set(t.id, t)
	l.names.Set(t.name, t.id)
	l.index.addTopic(t)
}

func (l *loader) config(r *metadatav1.Config) error {
	resource := ConfigResource{Type: r.GetResourceType(), Name: r.GetResourceName()}
	if r.Value == nil || r.GetKey() == "" {
		return fmt.Errorf("config of %s without key or value", resource)
	}
	l.configs[resource] = append(l.configs[resource], ConfigEntry{Key: r.GetKey(), Value: r.GetValue()})
	return nil
}

// finish publishes the image, if it is sound.
func (l *loader) finish(s *snapshotStream) (*Image, error) {
	l.endTopic()
	img := newImage(s.guard)
	img.brokers, img.controllers = l.brokers.Map(), l.controllers.Map()
	img.topics, img.names = l.topics.Map(), l.names.Map()
	for r, entries := range l.configs {
		img.configs = img.configs.Set(r, entries)
	}
	img.index = l.index
	img.objects = s.objects
	img.seal()
	if err := Check(img); err != nil {
		return nil, err
	}
	return img, nil
}
