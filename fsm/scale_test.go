package fsm

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	scale     = flag.Bool("scale", false, "measure snapshots of 100,000 topics with 10 partitions each")
	scaleStep = flag.String("scale-step", "", "the step of -scale that this process takes, and its file")
)

// Bounds of every step at 100,000 topics x 10 partitions x 3 replicas.
const (
	scaleTime  = 30 * time.Second
	scaleBytes = 1 << 30
)

// scaleSteps are taken one after the other, each by a process of its own, so that what one needs is not hidden by what
// another has left. The first makes the file that the others read.
var scaleSteps = []struct {
	name string
	run  func(file string) error
}{
	{"make", scaleMake},
	{"verify", scaleVerify},
	{"inspect", func(file string) error {
		return withFile(file, func(r io.Reader) error { _, err := InspectSnapshot(r, 20); return err })
	}},
	{"read", func(file string) error { _, err := scaleRead(file); return err }},
	{"write", scaleWrite},
	{"rebirth", scaleRebirth},
	{"plan of repair", func(file string) error {
		img, err := scaleRead(file)
		if err != nil {
			return err
		}
		return PlanRepair(img).Left
	}},
	{"changes", scaleChanges},
}

// TestScale takes every step at the greatest size that is promised, and prints what it took.
func TestScale(t *testing.T) {
	if *scaleStep != "" {
		takeScaleStep(t)
		return
	}
	if !*scale {
		t.Skip("needs -scale; it takes a minute")
	}
	file := filepath.Join(t.TempDir(), "big.snapshot")
	for _, step := range scaleSteps {
		out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestScale$", "-test.v", "-scale-step="+step.name+"="+file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", step.name, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, figures, ok := strings.Cut(line, "figures: "); ok {
				t.Logf("%s: %s", step.name, strings.TrimSpace(figures))
			}
		}
	}
}

func takeScaleStep(t *testing.T) {
	name, file, _ := strings.Cut(*scaleStep, "=")
	for _, step := range scaleSteps {
		if step.name != name {
			continue
		}
		begin := time.Now()
		if err := step.run(file); err != nil {
			t.Fatal(err)
		}
		took, used, high := time.Since(begin), processTime(t), residentHigh(t)
		t.Logf("figures: %.1f s (%.1f s of processor time), %d MB resident at most", took.Seconds(), used.Seconds(), high>>20)
		// On a machine that others use too the clock says little about the step.
		if step.name != "make" && (min(took, used) > scaleTime || high > scaleBytes) {
			t.Errorf("more than %s or %d MB", scaleTime, scaleBytes>>20)
		}
		return
	}
	t.Fatalf("there is no step %q", name)
}

// processTime is what this process used of the processors, its collections of garbage included.
func processTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentHigh is the most memory that this process ever had resident, in bytes.
func residentHigh(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 && err == nil {
			return kb << 10
		}
	}
	t.Fatal("no VmHWM in /proc/self/status")
	return 0
}

func scaleMake(file string) error {
	var t failure
	img := bigImage(&t, 100_000, 10, 12)
	return errors.Join(t.err, writeFile(file, img))
}

// failure is a reporter that keeps its first error.
type failure struct{ err error }

func (f *failure) Helper() {}

func (f *failure) Fatal(args ...any) { f.err = errors.Join(f.err, errors.New(fmt.Sprint(args...))) }

func (f *failure) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func writeFile(file string, img *Image) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(WriteSnapshot(img, w), w.Flush(), f.Sync(), f.Close())
}

func withFile(file string, use func(io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(use(bufio.NewReaderSize(f, 1<<20)), f.Close())
}

func scaleRead(file string) (img *Image, err error) {
	err = withFile(file, func(r io.Reader) error {
		img, err = ReadSnapshot(r)
		return err
	})
	return img, err
}

func scaleVerify(file string) error {
	return withFile(file, func(r io.Reader) error {
		v := NewSnapshotVerifier()
		if _, err := io.Copy(v, r); err != nil {
			return err
		}
		return v.Close()
	})
}

func scaleWrite(file string) error {
	img, err := scaleRead(file)
	if err != nil {
		return err
	}
	return writeFile(file+".again", img)
}

// scaleRebirth is what a restore does with a snapshot: it is read, born again, and written.
func scaleRebirth(file string) error {
	img, err := scaleRead(file)
	if err != nil {
		return err
	}
	born, err := Rebirth(img, Birth{ClusterID: img.ClusterID(), UUID: uuid(2)})
	if err != nil {
		return err
	}
	if born.NumAwaiting() != 1_000_000 {
		return fmt.Errorf("%d partitions await inventories", born.NumAwaiting())
	}
	return writeFile(file+".born", born)
}

// scaleChanges lists all that a restore changes.
func scaleChanges(file string) error {
	img, err := scaleRead(file)
	if err != nil {
		return err
	}
	born, err := Rebirth(img, Birth{ClusterID: img.ClusterID(), UUID: uuid(2)})
	if err != nil {
		return err
	}
	n := 0
	var line bytes.Buffer
	for c := range Changes(img, born) {
		line.Reset()
		line.WriteString(c.String())
		n++
	}
	if n < 3_000_000 {
		return fmt.Errorf("only %d changes", n)
	}
	return nil
}
