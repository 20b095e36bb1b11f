package archive

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skiffmq/skiff/fsm"
)

// suffix of a file that is whole.
const suffix = ".snapshot"

// name says where in history a file's image is: <lineage number, 20 digits>-<metadata offset, 20 digits>-<lineage uuid>.snapshot.
// Sorted by name, files are in the order of history.
type name struct {
	lineage fsm.LineageID
	// offset is that of the last record in the image.
	offset int64
}

// nameOf gives the name of an image's file.
func nameOf(img *fsm.Image) name { return name{lineage: img.Lineage().ID, offset: img.AppliedOffset()} }

// String is the file's name.
func (n name) String() string {
	return fmt.Sprintf("%020d-%020d-%s%s", n.lineage.Number, n.offset, n.lineage.UUID, suffix)
}

// parseName reads a file's name; false for a file that is none of an archive.
func parseName(text string) (n name, ok bool) {
	const digits, uuidAt = 20, 42
	base, found := strings.CutSuffix(text, suffix)
	if !found || len(base) < uuidAt {
		return n, false
	}
	var err error
	if n.lineage.Number, err = strconv.ParseUint(base[:digits], 10, 64); err != nil {
		return n, false
	}
	if n.offset, err = strconv.ParseInt(base[digits+1:uuidAt-1], 10, 64); err != nil {
		return n, false
	}
	if n.lineage.UUID, err = fsm.ParseUUID(base[uuidAt:]); err != nil {
		return n, false
	}
	return n, n.String() == text
}

// file is one that is there.
type file struct {
	name
	modified time.Time
}

// list gives the files of an archive in the order of history. A directory that does not exist is an empty archive.
func list(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the archive: %w", err)
	}
	var files []file
	for _, entry := range entries {
		n, ok := parseName(entry.Name())
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			if os.IsNotExist(err) {
				continue // another node that shares the directory has removed it
			}
			return nil, fmt.Errorf("list the archive: %w", err)
		}
		files = append(files, file{name: n, modified: info.ModTime()})
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.lineage.Number, b.lineage.Number), cmp.Compare(a.offset, b.offset), strings.Compare(a.String(), b.String()))
	})
	return files, nil
}

// newestOf gives the last file of a lineage, nil if there is none.
func newestOf(files []file, lineage fsm.LineageID) *file {
	for i := range slices.Backward(files) {
		if files[i].lineage == lineage {
			return &files[i]
		}
	}
	return nil
}

// unfinished is the name of a file that a node is writing. The dot keeps it out of sight.
func (n name) unfinished(node int32) string { return fmt.Sprintf(".%s.%d.tmp", n, node) }

// isUnfinished tells whether a directory entry is a file that this node did not finish.
func isUnfinished(entry fs.DirEntry, node int32) bool {
	return strings.HasPrefix(entry.Name(), ".") && strings.HasSuffix(entry.Name(), fmt.Sprintf("%s.%d.tmp", suffix, node))
}

func (a *Archive) path(n name) string { return filepath.Join(a.cfg.Dir, n.String()) }
