package tool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/skiffmq/skiff/cmd/config"
)

// golden reads a snapshot of package fsm that stays what it is for ever.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "fsm", "testdata", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotCommandsSay runs the commands of a script and compares every word.
func TestSnapshotCommandsSay(t *testing.T) {
	full := golden(t, "1-full.snapshot")
	newer := bytes.Clone(full)
	newer[11]++ // the stream's version
	files := map[string][]byte{
		"full": full, "reborn": golden(t, "1-reborn.snapshot"), "init": golden(t, "1-init.snapshot"), "text": []byte("a text and no snapshot"),
		"cut": full[:700], "newer": newer,
	}
	script, err := filepath.Abs(filepath.Join("testdata", "snapshot.txt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, data := range files {
		write(t, name, data)
	}
	datadriven.RunTest(t, script, func(t *testing.T, d *datadriven.TestData) string {
		code, stdout, stderr := skiff(t, strings.Fields(d.Input)...)
		return fmt.Sprintf("%s%sexit %d\n", stdout, stderr, code)
	})
}

// TestVerifyFindsEveryDamage: each byte of a snapshot with every kind of record, changed in two ways, and each length that it
// may be cut to.
func TestVerifyFindsEveryDamage(t *testing.T) {
	sound := golden(t, "1-full.snapshot")
	t.Chdir(t.TempDir())
	const together = 200 // files for one run of the command
	var files []string
	cases := 0
	judge := func() {
		code, stdout, stderr := skiff(t, append([]string{"snapshot", "verify"}, files...)...)
		if code != config.ExitFailed || strings.Count(stdout, "at byte ") != len(files) || !strings.Contains(stderr, fmt.Sprintf("%d of %[1]d snapshots are not sound", len(files))) {
			t.Errorf("exit %d\n%s%s", code, stdout, stderr)
		}
		cases, files = cases+len(files), nil
	}
	try := func(what string, data []byte) {
		write(t, what, data)
		if files = append(files, what); len(files) == together {
			judge()
		}
	}
	for i := range sound {
		for _, mask := range []byte{0x01, 0xff} {
			damaged := bytes.Clone(sound)
			damaged[i] ^= mask
			try(fmt.Sprintf("byte-%d-xor-%#x", i, mask), damaged)
		}
		try(fmt.Sprintf("cut-to-%d-bytes", i), sound[:i])
	}
	try("a-byte-more", append(bytes.Clone(sound), 0))
	judge()
	t.Logf("verify exits with 1 in all of %d cases of a file of %d bytes", cases, len(sound))
}

// TestSnapshotSinkNamesOnlyWhatIsWhole: a stream that is cut, damaged or not written leaves no file, and an old one as it was.
func TestSnapshotSinkNamesOnlyWhatIsWhole(t *testing.T) {
	sound := golden(t, "1-full.snapshot")
	dir := t.TempDir()
	path := filepath.Join(dir, "x.snapshot")
	save := func(data []byte) error {
		sink, err := createSnapshot(path, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = sink.Write(data); err == nil {
			err = sink.commit()
		}
		if err := sink.abandon(); err != nil {
			t.Fatal(err)
		}
		return err
	}
	for cut := 0; cut < len(sound); cut += 13 {
		if save(sound[:cut]) == nil {
			t.Errorf("cut to %d bytes: no error", cut)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Fatalf("left %v, %v", entries, err)
	}
	for range 2 { // made, and replaced
		if err := save(sound); err != nil {
			t.Fatal(err)
		}
	}
	if save(sound[:100]) == nil {
		t.Error("a cut stream replaced a file")
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, sound) {
		t.Errorf("the old file is not what it was: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
	if _, err := createSnapshot(path, nil, false); err == nil {
		t.Error("a file was replaced unasked")
	}
}
