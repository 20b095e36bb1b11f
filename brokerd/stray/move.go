package stray

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skiffmq/skiff/fsm"
)

// Put moves a replica out of the partitions directory, with what is known of its topic. The replica's log must be
// closed. It returns the name of the stray, empty if there is no such replica.
//
// What is known is written first: a crash before the rename leaves a file that nobody reads, since it names a stray
// that is not there. If it cannot be written, on a full disk above all, the replica is put away all the same.
func (s *Store) Put(id fsm.PartitionID, t Taken) (string, error) {
	name := Name{ID: id, Lineage: t.Lineage.Number, Offset: t.Offset}
	from := s.PartitionDir(id)
	if _, err := os.Stat(from); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", fmt.Errorf("put away %s: %w", from, err)
	}
	i := info{name: name, lineage: t.Lineage.UUID, since: t.At, topic: t.Topic}
	if err := s.writeInfo(from, i); err != nil {
		s.logger.Warn("what is known of a stray's topic is not written down", "stray", name, "topic", t.Topic.Name, "error", err)
	}
	if err := s.do.chtimes(from, t.At, t.At); err != nil {
		return "", fmt.Errorf("put away %s: %w", from, err)
	}
	if err := s.renamed(from, s.path(name.String())); err != nil {
		return "", err
	}
	s.count(id, 1)
	return name.String(), nil
}

func (s *Store) writeInfo(dir string, i info) error {
	file, err := i.encode()
	if err != nil {
		return err
	}
	return s.do.writeFile(filepath.Join(dir, infoFile), file, 0o640)
}

// TakeBack gives a replica its place again, from its newest stray, unless there is one in its place already. It tells
// whether it did.
func (s *Store) TakeBack(id fsm.PartitionID) (bool, error) {
	s.mu.Lock()
	n := s.known[id]
	s.mu.Unlock()
	if n == 0 {
		return false, nil
	}
	if _, err := os.Stat(s.PartitionDir(id)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	names, err := s.names()
	if err != nil {
		return false, err
	}
	for _, name := range slices.Backward(names) {
		if name.ID != id {
			continue
		}
		err := s.renamed(s.path(name.String()), s.PartitionDir(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody purged it
		}
		if err != nil {
			return false, err
		}
		s.count(id, -1)
		s.forget(name)
		s.logger.Info("a replica that was put away is ours again", "stray", name)
		return true, nil
	}
	return false, nil
}

// forget drops what was known of a stray that is none any more. Its file says nothing now; that it goes is tidiness.
func (s *Store) forget(n Name) {
	s.mu.Lock()
	delete(s.topics, n.String())
	s.mu.Unlock()
	if err := s.do.remove(filepath.Join(s.PartitionDir(n.ID), infoFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Debug("what was known of a stray's topic was left in its directory", "stray", n, "error", err)
	}
}
