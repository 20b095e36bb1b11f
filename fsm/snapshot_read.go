package fsm

import (
	"errors"
	"fmt"
	"io"
)

// ReadSnapshot reads a stream of WriteSnapshot to its end, verifies frames, counts and digest, and every invariant of
// what it read. It holds one frame of at most 2 MiB besides the image. The stream must end after the trailer.
func ReadSnapshot(r io.Reader) (*Image, error) {
	img, err := loadSnapshot(r)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if err := checkObjects(img); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return img, nil
}

// loadSnapshot reads a stream whose frames, counts and digest are right; what it says is not judged.
func loadSnapshot(r io.Reader) (*Image, error) {
	l := loader{newAssembly()}
	s := newSnapshotStream(l.load)
	if err := readFrames(r, s); err != nil {
		return nil, err
	}
	return l.image(s.guard, s.objects), nil
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

// loader builds an image from the records of a snapshot: what may follow on what was judged when the facts were folded.
type loader struct {
	*assembly
}

// load takes in one object of the stream.
func (l loader) load(o *snapshotObject) error {
	switch {
	case o.controller != nil:
		l.controllers.Set(o.controller.ID, o.controller)
	case o.broker != nil:
		l.brokers.Set(o.broker.ID, o.broker)
	case o.partition != nil:
		return l.loadPartition(o.id, o.partition)
	case o.topic != "":
		return l.loadTopic(o.id.Topic, o.topic)
	case o.entry != nil:
		l.addConfig(o.resource, *o.entry)
	case o.recovery != nil:
		l.recoveries.Set(o.id, o.recovery)
	case o.feature != "":
		l.features.Set(o.feature, o.level)
	case o.quota != nil:
		l.quotas.Set(o.quota.id(), o.quota.Value)
	case o.answer != nil:
		l.answers.Set(o.answer.Offset, o.answer)
	}
	return nil
}

func (l loader) loadTopic(id UUID, name string) error {
	l.endTopic()
	if _, exists := l.topics.Get(id); exists {
		return violation(10, "topic "+name, "id %s names another topic", id)
	}
	l.beginTopic(id, name)
	return nil
}

func (l loader) loadPartition(id PartitionID, p *Partition) error {
	t := l.topic
	if t == nil || t.id != id.Topic || t.count != id.Partition {
		return fmt.Errorf("partition %d of topic %s is out of order", id.Partition, id.Topic)
	}
	l.addPartition(p)
	return nil
}
