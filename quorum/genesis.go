package quorum

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// Where every history begins: a snapshot of the first image, at the first index of the first term.
const (
	genesisIndex = 1
	genesisTerm  = 1
)

// keyCurrentTerm is where hashicorp/raft keeps its term.
var keyCurrentTerm = []byte("CurrentTerm")

// installGenesis makes the raft store that the plan says, from nothing: whatever an interrupted attempt left in the
// directory is removed first. It must not be called once meta says that the node is formatted.
func installGenesis(dir string, p *plan, pin storePin, logger hclog.Logger) error {
	raftDir := filepath.Join(dir, raftDirName)
	if err := os.RemoveAll(raftDir); err != nil {
		return fmt.Errorf("clear %s: %w", raftDir, err)
	}
	if err := os.MkdirAll(raftDir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", raftDir, err)
	}
	if err := makeStore(raftDir, pin, logger); err != nil {
		return err
	}
	if err := writeGenesisSnapshot(dir, p, logger); err != nil {
		return err
	}
	for _, d := range []string{raftDir, dir} {
		if err := disk.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// makeStore makes an empty store that carries its pin and Raft's first term.
func makeStore(raftDir string, pin storePin, logger hclog.Logger) (err error) {
	store, err := openEngine(pin.Kind, raftDir, true, logger)
	if err != nil {
		return err
	}
	defer func() {
		if closing := store.Close(); err == nil && closing != nil {
			err = fmt.Errorf("close the new raft store: %w", closing)
		}
	}()
	if err := pin.write(store); err != nil {
		return fmt.Errorf("write the pin of the new raft store: %w", err)
	}
	if err := store.SetUint64(keyCurrentTerm, genesisTerm); err != nil {
		return fmt.Errorf("write the first term: %w", err)
	}
	return nil
}

// writeGenesisSnapshot writes the snapshot of the plan's first image, which names the voters.
func writeGenesisSnapshot(dir string, p *plan, logger hclog.Logger) error {
	snapshots, err := newSnapshotStore(filepath.Join(dir, raftDirName), logger)
	if err != nil {
		return err
	}
	_, encoder := raft.NewInmemTransport("") // only its encoding of peers is asked
	sink, err := snapshots.Create(raft.SnapshotVersionMax, genesisIndex, genesisTerm, p.configuration(), genesisIndex, encoder)
	if err != nil {
		return fmt.Errorf("create the first snapshot: %w", err)
	}
	if err := p.writeFirstImage(dir, sink); err != nil {
		sink.Cancel() //nolint:errcheck // the fault that matters is returned
		return fmt.Errorf("write the first snapshot: %w", err)
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("complete the first snapshot: %w", err)
	}
	return nil
}

// writeFirstImage writes the image that every voter begins with: the plan's own snapshot, or that of an empty cluster.
func (p *plan) writeFirstImage(dir string, to io.Writer) error {
	if p.Snapshot != nil {
		return copyStaged(dir, p, to)
	}
	img, err := p.genesis()
	if err != nil {
		return err
	}
	return fsm.WriteSnapshot(img, to)
}
