package fsm

import (
	"errors"
	"fmt"
	"io"

	"github.com/benbjohnson/immutable"
)

// ReadSnapshot reads a stream of WriteSnapshot to its end, verifies frames, counts and digest, and runs Check on
// what it read. It holds one frame of at most 2 MiB besides the image. The stream must end after the trailer.
func ReadSnapshot(r io.Reader) (*Image, error) {
	l := newLoader()
	s := newSnapshotStream(l.load)
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
	index       *indexBuilder
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
		index:       newIndexBuilder(),
	}
}

// load takes in one object of the stream.
func (l *loader) load(o *snapshotObject) error {
	switch {
	case o.controller != nil:
		l.controllers.Set(o.controller.ID, o.controller)
	case o.broker != nil:
		l.brokers.Set(o.broker.ID, o.broker)
	case o.partition != nil:
		return l.partition(o.id, o.partition)
	case o.topic != "":
		return l.beginTopic(o.id.Topic, o.topic)
	case o.entry != nil:
		l.configs[o.resource] = append(l.configs[o.resource], *o.entry)
	}
	return nil
}

func (l *loader) beginTopic(id UUID, name string) error {
	l.endTopic()
	if _, exists := l.topics.Get(id); exists {
		return violation(10, "topic "+name, "id %s names another topic", id)
	}
	l.topic = &Topic{id: id, name: name}
	return nil
}

func (l *loader) partition(id PartitionID, p *Partition) error {
	t := l.topic
	if t == nil || t.id != id.Topic || t.count != id.Partition {
		return fmt.Errorf("partition %d of topic %s is out of order", id.Partition, id.Topic)
	}
	if t.count%chunkPartitions == 0 {
		t.chunks = append(t.chunks, &chunk{})
	}
	t.chunks[len(t.chunks)-1].set(int(t.count%chunkPartitions), p)
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
	for _, c := range t.chunks {
		c.compact()
	}
	l.topics.Set(t.id, t)
	l.names.Set(t.name, t.id)
	l.index.addTopic(t)
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
	img.index = l.index.finish()
	img.objects = s.objects
	img.seal()
	if err := Check(img); err != nil {
		return nil, err
	}
	return img, nil
}
