package powercut_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skiffmq/skiff/cmd/powercut"
	"github.com/skiffmq/skiff/cmd/skiff/tool"
	"github.com/skiffmq/skiff/fsm"
)

func init() { work["save"] = func(args []string) error { return saveFrom(args[0], os.Stderr) } }

// saved is the file that is written in dir.
func saved(dir string) string { return filepath.Join(dir, "x.snapshot") }

// saveFrom saves the metadata of the broker's directory dir to a file in it.
func saveFrom(dir string, said io.Writer) error {
	if code := tool.Main([]string{"snapshot", "save", saved(dir), "--data-dir", dir, "--overwrite"}, io.Discard, said); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// TestSavedFileIsWholeWhereverTheToolIsKilled: under the name there is the old snapshot or the new one, whole.
func TestSavedFileIsWholeWhereverTheToolIsKilled(t *testing.T) {
	streams := make([]bytes.Buffer, 2)
	for i := range streams {
		img, err := archiveImage(int64(100 * (i + 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := fsm.WriteSnapshot(img, &streams[i]); err != nil {
			t.Fatal(err)
		}
	}
	write := func(t testing.TB, path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	powercut.Scenario{
		Prepare: func(t testing.TB, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "metadata"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "metadata", fmt.Sprintf("%020d-%020d.image", 1, 230)), streams[1].Bytes())
			write(t, saved(dir), streams[0].Bytes())
		},
		Command: func(dir string) *exec.Cmd { return process("save", dir) },
		Check: func(t testing.TB, dir string, at powercut.Cut) {
			got, err := os.ReadFile(saved(dir))
			isOld, isNew := bytes.Equal(got, streams[0].Bytes()), bytes.Equal(got, streams[1].Bytes())
			if err != nil || !isOld && !isNew || at == (powercut.Cut{}) && !isNew {
				t.Errorf("%d bytes are under the name, old %t, new %t: %v", len(got), isOld, isNew, err)
			}
			var said bytes.Buffer
			if err := saveFrom(dir, &said); err != nil {
				t.Errorf("the next run: %v\n%s", err, said.String())
			}
			if got, err := os.ReadFile(saved(dir)); err != nil || !bytes.Equal(got, streams[1].Bytes()) {
				t.Errorf("after the next run: %d bytes, %v", len(got), err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
				t.Errorf("the directory has %v, %v", entries, err)
			}
		},
	}.Run(t)
}
