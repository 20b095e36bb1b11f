package tool

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/bootstrap"
)

// load reads the snapshot and validates all of it: format, checksums, order, counts, digest, every invariant.
func (r *restoring) load(path string) (*fsm.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, config.Failed("name a file that skiff snapshot save has written; nothing was touched", "%v", err)
	}
	defer f.Close()
	img, err := fsm.ReadSnapshot(io.TeeReader(bufio.NewReaderSize(f, 1<<20), newProgress(r.stderr, "validated")))
	if err != nil {
		return nil, badSnapshot(path, err)
	}
	return img, nil
}

// testimony reads what the witnesses show.
func (r *restoring) testimony() ([]bootstrap.Witness, error) {
	var list []bootstrap.Witness
	for _, path := range r.witnesses {
		img, err := witnessImage(path)
		if err != nil {
			return nil, config.Failed("leave the witness out, or name another one; nothing was touched", "witness %s: %v", path, err)
		}
		w := bootstrap.Witness{
			Name: path, ClusterID: img.ClusterID(), Lineage: img.Lineage().ID, NextOffset: img.NextOffset(),
			Epoch: max(img.ControllerEpoch(), img.EpochBase()),
		}
		r.say(fmt.Sprintf("witness %s: %s, controller epoch %d", path, position(w.Lineage, w.NextOffset-1), w.Epoch))
		list = append(list, w)
	}
	return list, nil
}

// witnessImage reads the newest metadata that a snapshot file or a data directory has.
func witnessImage(path string) (*fsm.Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		from, err := readDirectory(path)
		if err != nil {
			return nil, err
		}
		return from.image, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return fsm.ReadSnapshot(bufio.NewReaderSize(f, 1<<20))
}
