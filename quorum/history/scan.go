package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// scanned is what a look through a whole segment found.
type scanned struct {
	segment
	// image after the last whole block.
	image *fsm.Image
	// fault is why the rest of the file is not used; nil if all of it is.
	fault error
}

// scan reads a segment to its end, or to the first frame that is not whole and sound, and folds what it holds.
func scan(path string, decoder *zstd.Decoder) (*scanned, error) {
	f, r, img, err := openSegment(path, decoder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &scanned{image: img, segment: segment{path: path, Span: Span{
		First: img.NextOffset(), FirstMs: img.LastBatchTimeMs(), Lineage: img.Lineage().ID,
	}}}
	if s.Bytes, err = baseBytes(f, r.Buffered()); err != nil {
		return nil, err
	}
	for s.fault == nil {
		kind, payload, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if s.fault = err; err == nil {
			s.fault = s.take(kind, payload, decoder)
		}
	}
	s.Next, s.LastMs = s.image.NextOffset(), s.image.LastBatchTimeMs()
	return s, nil
}

// baseBytes is how much of the file has been used, given what its reader holds beyond that.
func baseBytes(f *os.File, buffered int) (int64, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	return at - int64(buffered), err
}

func (s *scanned) take(kind frameKind, payload []byte, decoder *zstd.Decoder) error {
	if kind != frameBlock {
		return fmt.Errorf("a frame of kind %d among the entries", kind)
	}
	entries, err := decodeBlock(payload, decoder)
	if err != nil {
		return err
	}
	img := s.image
	for _, e := range entries {
		if img, err = follow(img, e); err != nil {
			return err
		}
	}
	s.image, s.Bytes = img, s.Bytes+frameHeadBytes+int64(len(payload))
	return nil
}

// follow folds an entry as a broker does.
func follow(img *fsm.Image, e *controllerv1.EntryApplied) (*fsm.Image, error) {
	envelope, err := fsm.DecodeEnvelope(e.GetEnvelope())
	if err != nil {
		return nil, fmt.Errorf("entry at metadata offset %d: %w", e.GetFirstMetadataOffset(), err)
	}
	r, err := followEnvelope(img, envelope, e)
	return r.Image, err
}

func followEnvelope(img *fsm.Image, envelope *metadatav1.Envelope, e *controllerv1.EntryApplied) (fsm.Result, error) {
	r := fsm.Follow(img, fsm.Entry{Envelope: envelope, ControllerEpoch: e.GetControllerEpoch(), FirstOffset: e.GetFirstMetadataOffset()})
	switch r.Outcome {
	case fsm.Applied:
		return r, nil
	case fsm.Dropped:
		return fsm.Result{}, fmt.Errorf("entry at metadata offset %d does not follow: %w", e.GetFirstMetadataOffset(), r.Mismatch)
	case fsm.Broken:
	}
	return fsm.Result{}, fmt.Errorf("entry at metadata offset %d does not fold: %w", e.GetFirstMetadataOffset(), r.Err)
}

// segmentFiles lists the segments of a directory by metadata offset, and the leftovers of a crash.
func segmentFiles(dir string) (offsets []int64, leftovers []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		if first, ok := segmentOffset(f.Name()); ok {
			offsets = append(offsets, first)
		} else if len(f.Name()) > len(tempSuffix) && f.Name()[len(f.Name())-len(tempSuffix):] == tempSuffix {
			leftovers = append(leftovers, f.Name())
		}
	}
	slices.Sort(offsets)
	return offsets, leftovers, nil
}
