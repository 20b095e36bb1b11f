package metadata

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
)

// ReadImage reads the metadata that the metadata log in dir has, and changes nothing: it is for people who look at a broker, which
// may run meanwhile. All of it was committed by the quorum. The torn end of a last write is no trouble; trouble tells why
// something before it could not be read, and the image is then as far as could be read.
func ReadImage(dir string) (img *fsm.Image, trouble, err error) {
	s := &store{dir: dir, logger: hclog.NewNullLogger()}
	images, logs, err := s.list()
	if err != nil {
		return nil, nil, err
	}
	img, err = s.newestImage(images)
	if err != nil {
		return nil, nil, err
	}
	if img == nil {
		return nil, nil, fmt.Errorf("%s holds no metadata image that can be read, of %d", dir, len(images))
	}
	for i, n := range logs {
		if n.lineage != img.Lineage().ID.Number {
			continue
		}
		if n.next > img.NextOffset() {
			return img, fmt.Errorf("%s: the metadata offsets %d to %d are missing before it", s.path(n.String()), img.NextOffset(), n.next-1), nil
		}
		img, err = foldFile(img, s.path(n.String()))
		if err != nil && (i+1 < len(logs) || !errors.Is(err, errTorn)) {
			return img, fmt.Errorf("%s: %w", s.path(n.String()), err), nil
		}
	}
	return img, nil, nil
}

// foldFile folds the entries of one file that img does not have yet.
func foldFile(img *fsm.Image, path string) (*fsm.Image, error) {
	file, err := os.Open(path)
	if err != nil {
		return img, err
	}
	defer file.Close()
	header := make([]byte, logHeaderSize)
	n, err := io.ReadFull(file, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return img, err
	}
	h, err := parseLogHeader(header[:n])
	if err != nil {
		return img, err
	}
	if h.lineage != img.Lineage().ID {
		return img, fmt.Errorf("the file continues lineage %s, the image is of %s", h.lineage, img.Lineage().ID)
	}
	return foldFrames(img, &frameReader{r: bufio.NewReaderSize(file, 1<<16)})
}
