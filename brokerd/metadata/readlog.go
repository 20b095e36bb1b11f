package metadata

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// ReadLog reads every entry of the metadata log in dir, oldest first, and changes nothing: it is for people who look at the log of
// a broker that is stopped. A file that is damaged or torn is read up to there; the error tells of all of them at the end.
func ReadLog(dir string, each func(file string, e *controllerv1.EntryApplied) error) error {
	s := &store{dir: dir}
	_, logs, err := s.list()
	if err != nil {
		return err
	}
	var damage error
	for _, n := range logs {
		stopped, err := readLogFile(s.path(n.String()), each)
		if err != nil {
			return err
		}
		damage = errors.Join(damage, stopped)
	}
	return damage
}

// readLogFile reads one file. It tells apart why the file could not be read on, and the caller's own error.
func readLogFile(path string, each func(string, *controllerv1.EntryApplied) error) (stopped, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open metadata log: %w", err)
	}
	defer file.Close()
	header := make([]byte, logHeaderSize)
	n, err := io.ReadFull(file, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read metadata log: %w", err)
	}
	if _, err := parseLogHeader(header[:n]); err != nil {
		return fmt.Errorf("%s: %w", path, err), nil
	}
	frames := &frameReader{r: bufio.NewReaderSize(file, 1<<16)}
	for {
		switch e, err := frames.next(); {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return fmt.Errorf("%s at byte %d: %w", path, logHeaderSize+frames.read, err), nil
		default:
			if err := each(filepath.Base(path), e); err != nil {
				return nil, err
			}
		}
	}
}
