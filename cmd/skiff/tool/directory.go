package tool

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum"
)

// stored is the metadata that a data directory holds.
type stored struct {
	// source words where it comes from.
	source string
	// image holds everything, committed what is certainly decided.
	image, committed *fsm.Image
	// unknown is the number of entries beyond committed.
	unknown int
	// trouble is why the rest of the directory could not be read; nil when all of it was.
	trouble error
}

// readDirectory reads the metadata from the data directory of a quorum node, which must be stopped, or of a broker, which need
// not be. Nothing is changed there.
func readDirectory(dir string) (*stored, error) {
	if !isDirectory(dir) {
		return nil, config.Usage("name the data directory of a quorum node or of a broker", "%s is no directory", dir)
	}
	if isDirectory(filepath.Join(dir, "raft")) {
		return readQuorumDirectory(dir)
	}
	for _, sub := range []string{"metadata", "."} {
		images, err := filepath.Glob(filepath.Join(dir, sub, "*.image"))
		if err != nil || len(images) == 0 {
			continue
		}
		img, trouble, err := metadata.ReadImage(filepath.Join(dir, sub))
		if err != nil {
			return nil, config.Failed("name the data directory of another node", "%s: %v", dir, err)
		}
		return &stored{source: "metadata log of the broker in " + dir, image: img, committed: img, trouble: trouble}, nil
	}
	return nil, config.Failed("name the data directory of a quorum node or of a broker", "%s holds neither a raft store nor a metadata log", dir)
}

func readQuorumDirectory(dir string) (*stored, error) {
	d, err := quorum.ReadDisk(dir)
	switch {
	case errors.Is(err, quorum.ErrDirectoryInUse):
		return nil, &config.ExitError{
			Code: config.ExitFailed, Cause: fmt.Sprintf("a node runs in %s: %v", dir, err), Err: err,
			Fix: "save from the live node (skiff snapshot save FILE --from HOST:PORT), or stop it first",
		}
	case err != nil:
		return nil, &config.ExitError{Code: config.ExitFailed, Cause: fmt.Sprintf("%s: %v", dir, err), Fix: "name the data directory of another node", Err: err}
	}
	return &stored{
		source: fmt.Sprintf("disk of the quorum node in %s, snapshot at index %d, log up to index %d of term %d", dir, d.SnapshotIndex, d.LastIndex, d.LastTerm),
		image:  d.Image, committed: d.Committed, unknown: d.Unknown, trouble: d.Trouble,
	}, nil
}
