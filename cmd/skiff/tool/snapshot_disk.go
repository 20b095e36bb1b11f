package tool

import (
	"context"
	"fmt"
	"io"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
)

// offline saves from the disk of a node that is stopped. What could not be read is told after the file is written.
func (s *saving) offline(_ context.Context, sink *snapshotSink) (saved, error) {
	from, err := readDirectory(s.dataDir)
	if err != nil {
		return saved{}, err
	}
	s.warn(from)
	img := from.image
	if s.committed {
		img = from.committed
	}
	if err := fsm.WriteSnapshot(img, io.MultiWriter(sink, newProgress(s.stderr, "saved"))); err != nil {
		return saved{}, config.Failed("make room, or name a file elsewhere", "%v", err)
	}
	if from.trouble != nil {
		s.incomplete = fmt.Errorf("the disk could not be read beyond metadata offset %d: %w", from.image.AppliedOffset(), from.trouble)
	}
	return saved{
		Source: from.source, ClusterID: img.ClusterID(), Lineage: img.Lineage().ID.String(),
		MetadataOffset: img.AppliedOffset(), KnownCommitted: from.committed.AppliedOffset(),
	}, nil
}

// warn says what is not known to be committed, and what that means.
func (s *saving) warn(from *stored) {
	known, last := from.committed.AppliedOffset(), from.image.AppliedOffset()
	if known == last {
		return
	}
	fmt.Fprintf(s.stderr, "metadata offsets up to %d are certainly committed; %d to %d (%d entries) are on this disk, and whether a majority had them "+
		"cannot be known from it\n", known, known+1, last, from.unknown)
	if s.committed {
		fmt.Fprintln(s.stderr, "they are left out (--committed): if a majority had them, changes that were confirmed to somebody are lost")
		return
	}
	fmt.Fprintln(s.stderr, "they are saved too: if no majority had them, changes that were never confirmed to anybody take effect. --committed leaves them out")
}
