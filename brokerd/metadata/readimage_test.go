package metadata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestReadImageFoldsImageAndLogs(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := ReadImage(dir); err == nil {
		t.Error("an empty directory was read")
	}
	h := newHistory(t, 1)
	s, _, err := openStore(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writeImage(h.img); err != nil {
		t.Fatal(err)
	}
	for range 3 { // three log files, of which the last is torn
		if err := s.roll(h.img); err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			if err := s.append(h.change(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.file.WriteAt([]byte{0, 0, 1}, s.size); err != nil {
		t.Fatal(err)
	}
	_, logs, err := s.list() // the store stays open, as in a broker that runs
	if err != nil || len(logs) != 3 {
		t.Fatal(logs, err)
	}
	img, trouble, err := ReadImage(dir)
	if err != nil || trouble != nil || img.Digest() != h.img.Digest() {
		t.Errorf("read %v, trouble %v, %v", img, trouble, err)
	}
	middle := filepath.Join(dir, logs[1].String())
	if err := os.Remove(middle); err != nil {
		t.Fatal(err)
	}
	img, trouble, err = ReadImage(dir)
	if err != nil || trouble == nil || !strings.Contains(trouble.Error(), "missing") || img.NextOffset() != logs[1].next {
		t.Errorf("without the middle: trouble %v, %v", trouble, err)
	}
	if err := os.WriteFile(middle, []byte("no log"), 0o600); err != nil {
		t.Fatal(err)
	}
	img, trouble, err = ReadImage(dir)
	if err != nil || trouble == nil || !strings.Contains(trouble.Error(), middle) || img.NextOffset() != logs[1].next {
		t.Errorf("with a damaged middle: trouble %v, %v", trouble, err)
	}
}
