package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// ErrNotKept is returned when what is asked for is older than the history, newer than it, or in a gap of it.
var ErrNotKept = errors.New("not in the history")

// Visit is told of an entry: the image before it, and the one after it. It may keep both, and must not change the entry.
type Visit func(before, after *fsm.Image, e *controllerv1.EntryApplied) error

// ErrStop ends a walk without an error.
var ErrStop = errors.New("stop")

// At returns the image before the metadata offset next, that is with all records below it.
func (l *Log) At(ctx context.Context, next int64) (*fsm.Image, error) {
	segments := l.copySegments()
	i := sort.Search(len(segments), func(i int) bool { return segments[i].First > next }) - 1
	if i < 0 || next > segments[i].Next {
		return nil, fmt.Errorf("metadata offset %d is %w, which has %s", next, ErrNotKept, wordSpans(segments))
	}
	image, err := segments[i].base()
	if err != nil || image.NextOffset() == next {
		return image, err
	}
	err = segments[i].walk(ctx, func(before, after *fsm.Image, _ *controllerv1.EntryApplied) error {
		if image = before; after.NextOffset() > next {
			return ErrStop
		}
		image = after
		return nil
	})
	return image, err
}

// OffsetAt returns the metadata offset next such that the records below it are those of batches decided until a time,
// Unix milliseconds.
func (l *Log) OffsetAt(ctx context.Context, timeMs int64) (int64, error) {
	segments := l.copySegments()
	i := sort.Search(len(segments), func(i int) bool { return segments[i].FirstMs > timeMs }) - 1
	if i < 0 {
		return 0, fmt.Errorf("that time is %w, which has %s", ErrNotKept, wordSpans(segments))
	}
	next := segments[i].First
	err := segments[i].walk(ctx, func(_, after *fsm.Image, _ *controllerv1.EntryApplied) error {
		if after.LastBatchTimeMs() > timeMs {
			return ErrStop
		}
		next = after.NextOffset()
		return nil
	})
	return next, err
}

// Walk visits every entry from a metadata offset on, in order, as far as it is flushed. Over a gap it goes on with the next
// segment: the image before is then another one than the image after the entry before.
func (l *Log) Walk(ctx context.Context, from int64, visit Visit) error {
	stopped := false
	for _, s := range l.copySegments() {
		if s.Next <= from || stopped {
			continue
		}
		err := s.walk(ctx, func(before, after *fsm.Image, e *controllerv1.EntryApplied) error {
			if after.NextOffset() <= from {
				return nil
			}
			err := visit(before, after, e)
			stopped = errors.Is(err, ErrStop)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func wordSpans(segments []segment) string {
	if len(segments) == 0 {
		return "nothing"
	}
	text := ""
	for i, s := range segments {
		if i > 0 && segments[i-1].Next == s.First && segments[i-1].Lineage == s.Lineage {
			continue
		}
		end := s.Next
		for _, later := range segments[i+1:] {
			if later.First != end || later.Lineage != s.Lineage {
				break
			}
			end = later.Next
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d to %d", s.First, end)
	}
	return "metadata offsets " + text
}

// base reads the image at the head.
func (s segment) base() (*fsm.Image, error) {
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	f, _, img, err := openSegment(s.path, decoder)
	if err != nil {
		return nil, err
	}
	return img, f.Close()
}

// walk visits the entries of a segment, up to where it was written when the segment was copied. ErrStop ends it.
func (s segment) walk(ctx context.Context, visit Visit) error {
	decoder, err := newDecoder()
	if err != nil {
		return err
	}
	defer decoder.Close()
	f, r, img, err := openSegment(s.path, decoder)
	if err != nil {
		return err
	}
	defer f.Close()
	for img.NextOffset() < s.Next {
		if img, err = walkBlock(ctx, r, decoder, img, visit); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	return nil
}

// walkBlock visits the entries of the next block.
func walkBlock(ctx context.Context, r *bufio.Reader, decoder *zstd.Decoder, img *fsm.Image, visit Visit) (*fsm.Image, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	kind, payload, err := readFrame(r)
	switch {
	case errors.Is(err, io.EOF):
		return nil, errTorn
	case err != nil:
		return nil, err
	case kind != frameBlock:
		return nil, fmt.Errorf("a frame of kind %d among the entries", kind)
	}
	entries, err := decodeBlock(payload, decoder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		after, err := follow(img, e)
		if err != nil {
			return nil, err
		}
		if err := visit(img, after, e); err != nil {
			return nil, err
		}
		img = after
	}
	return img, nil
}
