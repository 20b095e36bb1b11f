package metadata

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// openStore reads what the last process left: the newest readable image and every entry after it. The image is nil
// when there is none.
func openStore(dir string, logger hclog.Logger) (*store, *fsm.Image, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, nil, fmt.Errorf("make metadata directory: %w", err)
	}
	s := &store{dir: dir, logger: logger}
	if err := s.removeUnfinished(); err != nil {
		return nil, nil, err
	}
	images, logs, err := s.list()
	if err != nil {
		return nil, nil, err
	}
	img, err := s.newestImage(images)
	if err != nil || img == nil {
		return s, nil, err
	}
	img, err = s.replay(img, logs)
	return s, img, err
}

// newestImage returns the newest image that passes its checks, or nil.
func (s *store) newestImage(images []name) (*fsm.Image, error) {
	for _, n := range slices.Backward(images) {
		f, err := os.Open(s.path(n.String()))
		if err != nil {
			return nil, fmt.Errorf("open metadata image: %w", err)
		}
		img, err := fsm.ReadSnapshot(bufio.NewReaderSize(f, 1<<16))
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("close metadata image: %w", err)
		}
		if err == nil {
			return img, nil
		}
		s.logger.Error("a metadata image is damaged; an older one is tried", "file", f.Name(), "error", err)
	}
	return nil, nil
}

// replay folds the entries behind img and leaves the last log file open for append.
func (s *store) replay(img *fsm.Image, logs []name) (*fsm.Image, error) {
	for i, n := range logs {
		if n.lineage != img.Lineage().ID.Number || (i+1 < len(logs) && logs[i+1].lineage == n.lineage && logs[i+1].next <= img.NextOffset()) {
			continue
		}
		next, whole, err := s.replayFile(img, s.path(n.String()))
		if err != nil {
			return nil, err
		}
		img = next
		if !whole {
			break
		}
	}
	if s.file == nil {
		return img, s.roll(img)
	}
	return img, nil
}

// replayFile folds one log file and leaves it open. It returns false when the file ended early; what follows is
// then cut off, and kept beside it unless it is only the torn end of the last write.
func (s *store) replayFile(img *fsm.Image, path string) (*fsm.Image, bool, error) {
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			return nil, false, fmt.Errorf("close metadata log: %w", err)
		}
		s.file = nil
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, false, fmt.Errorf("open metadata log: %w", err)
	}
	header := make([]byte, logHeaderSize)
	n, err := io.ReadFull(file, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, false, errors.Join(fmt.Errorf("read metadata log: %w", err), file.Close())
	}
	h, err := parseLogHeader(header[:n])
	if errors.Is(err, ErrUnsupportedVersion) {
		return nil, false, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	if err != nil || h.lineage != img.Lineage().ID || h.first > img.NextOffset() {
		s.logger.Warn("a metadata log file does not continue the image; it is left alone", "file", path, "error", err)
		return img, false, file.Close()
	}
	frames := &frameReader{r: bufio.NewReaderSize(file, 1<<16)}
	img, foldErr := foldFrames(img, frames)
	s.file, s.size = file, logHeaderSize+frames.read
	s.sinceImage += frames.read
	if foldErr == nil {
		return img, true, nil
	}
	return img, false, s.cut(path, foldErr)
}

// foldFrames folds every entry that img does not have yet. The error tells why it stopped before the end.
func foldFrames(img *fsm.Image, frames *frameReader) (*fsm.Image, error) {
	for {
		before := frames.read
		e, err := frames.next()
		if errors.Is(err, io.EOF) {
			return img, nil
		}
		if err != nil {
			return img, err
		}
		if e.GetFirstMetadataOffset() < img.NextOffset() {
			continue
		}
		res, err := fold(img, e)
		if err == nil && res.Outcome != fsm.Applied {
			err = fmt.Errorf("entry at metadata offset %d does not fold: %w", e.GetFirstMetadataOffset(), reason(res))
		}
		if err != nil {
			frames.read = before
			return img, err
		}
		img = res.Image
	}
}

// cut ends the open log file behind its last good frame. The bytes cut off are kept once under another name,
// unless they are the torn end of a write: in a disaster somebody may want them.
func (s *store) cut(path string, why error) error {
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("cut metadata log: %w", err)
	}
	rest := info.Size() - s.size
	s.logger.Warn("the end of the metadata log is cut off; the quorum will send it again", "file", path, "at", s.size, "bytes", rest, "reason", why)
	if rest > frameHeader+payloadMax || !errors.Is(why, errTorn) {
		if err := keepCopy(s.file, s.size, path+".cut"); err != nil {
			return err
		}
	}
	if err := s.file.Truncate(s.size); err != nil {
		return fmt.Errorf("cut metadata log: %w", err)
	}
	s.unsynced = true
	return s.sync()
}

func keepCopy(from *os.File, at int64, to string) error {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("keep what is cut: %w", err)
	}
	_, err = io.Copy(out, io.NewSectionReader(from, at, 1<<62))
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("keep what is cut in %s: %w", filepath.Base(to), err)
	}
	return nil
}

// fold decodes an entry and folds it into img.
func fold(img *fsm.Image, e *controllerv1.EntryApplied) (fsm.Result, error) {
	env, err := fsm.DecodeEnvelope(e.GetEnvelope())
	if err != nil {
		return fsm.Result{}, fmt.Errorf("entry at metadata offset %d: %w", e.GetFirstMetadataOffset(), err)
	}
	return fsm.Follow(img, fsm.Entry{Envelope: env, ControllerEpoch: e.GetControllerEpoch(), FirstOffset: e.GetFirstMetadataOffset()}), nil
}

// reason tells why an entry had no effect.
func reason(res fsm.Result) error {
	if res.Mismatch != nil {
		return res.Mismatch
	}
	return res.Err
}
