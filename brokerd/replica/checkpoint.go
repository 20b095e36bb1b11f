package replica

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// The high watermark checkpoint, described in docs/formats/high-watermarks.md. It is a hint: a high watermark that
// is too low after a restart is raised by the first fetches.
const (
	highWatermarksFile  = "high-watermarks"
	highWatermarksMagic = "skiff-high-watermarks 1"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkpoint writes the high watermark of every partition, replacing the file.
func (m *Manager) checkpoint() error {
	highs := map[string]int64{}
	for _, p := range m.held() {
		p.mu.Lock()
		highs[stray.PartitionName(p.id)] = p.highWatermark()
		p.mu.Unlock()
	}
	if maps.Equal(highs, m.written) {
		return nil
	}
	if err := disk.WriteFileAtomic(filepath.Join(m.cfg.Dir, highWatermarksFile), encodeHighWatermarks(highs), 0o640); err != nil {
		return fmt.Errorf("write high watermarks: %w", err)
	}
	m.written = highs
	return nil
}

func encodeHighWatermarks(highs map[string]int64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", highWatermarksMagic)
	for _, name := range slices.Sorted(maps.Keys(highs)) {
		fmt.Fprintf(&b, "%s %d\n", name, highs[name])
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	return b.Bytes()
}

// readHighWatermarks reads the checkpoint; an absent file is an empty one.
func readHighWatermarks(dir string) (map[fsm.PartitionID]int64, error) {
	highs := map[fsm.PartitionID]int64{}
	data, err := os.ReadFile(filepath.Join(dir, highWatermarksFile))
	if errors.Is(err, fs.ErrNotExist) {
		return highs, nil
	}
	if err != nil {
		return highs, fmt.Errorf("read high watermarks: %w", err)
	}
	return decodeHighWatermarks(data)
}

func decodeHighWatermarks(data []byte) (map[fsm.PartitionID]int64, error) {
	empty := map[fsm.PartitionID]int64{}
	body, sum, ok := cutLast(data)
	if !ok || string(sum) != fmt.Sprintf("crc32c %08x", crc32.Checksum(body, castagnoli)) {
		return empty, errors.New("high watermarks: checksum does not match")
	}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	if lines[0] != highWatermarksMagic {
		return empty, fmt.Errorf("high watermarks: file begins with %q, want %q", lines[0], highWatermarksMagic)
	}
	highs := map[fsm.PartitionID]int64{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, " ")
		id, err := stray.ParsePartitionName(name)
		if err != nil {
			return empty, fmt.Errorf("high watermarks: %w", err)
		}
		if highs[id], err = strconv.ParseInt(value, 10, 64); err != nil {
			return empty, fmt.Errorf("high watermarks: %s: %w", name, err)
		}
	}
	return highs, nil
}

// cutLast splits off the last line, which must be ended.
func cutLast(data []byte) (body, last []byte, ok bool) {
	data, ok = bytes.CutSuffix(data, []byte("\n"))
	i := bytes.LastIndexByte(data, '\n')
	if !ok || i < 0 {
		return nil, nil, false
	}
	return data[:i+1], data[i+1:], true
}
