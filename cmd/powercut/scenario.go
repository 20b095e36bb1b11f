// Package powercut kills a process at its n-th write, sync, rename or removal of a file, for every n, and has what it left judged.
//
// A [Scenario] says how a directory looks before, which process works on it, and what must be true of it after the process was killed
// and another one went on. [Scenario.Run] repeats it for each kind of call and each n until the process ends by itself before
// its n-th call. By default a sample of n is tried; SKIFF_TEST_POWERCUT=all tries every one.
//
// The kill comes as the process enters the call: of the n-th write nothing is written. What the kernel holds in memory is not
// lost, so this shows that every prefix of the process's own steps leaves what the next start can go on from; that steps are synced in
// their order is seen by cutting at the syncs too. strace counts the calls of each thread by itself; a process that does its
// work on one locked thread is cut at every one of its calls, another one at many of them.
package powercut

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Everything is the environment variable that asks for every n when it is "all".
const Everything = "SKIFF_TEST_POWERCUT"

// calls are the kinds of call at which a process is killed. strace knows them by each of their names.
var calls = []call{
	{"write", "write,pwrite64"},
	{"sync", "fsync,fdatasync"},
	{"rename", "rename,renameat,renameat2"},
	{"unlink", "unlink,unlinkat"},
}

type call struct{ name, syscalls string }

// Cut is where a process was killed.
type Cut struct {
	// Call is write, sync, rename or unlink.
	Call string
	// N counts from 1.
	N int
}

// String names the cut.
func (c Cut) String() string { return fmt.Sprintf("%s-%d", c.Call, c.N) }

// Scenario is a process that must not be hurt by being killed.
type Scenario struct {
	// Prepare makes the directory as it is before the process starts; nil for an empty one.
	Prepare func(t testing.TB, dir string)
	// Command is the process. It ends by itself with 0 when its work is done, unless Drive says otherwise.
	Command func(dir string) *exec.Cmd
	// Drive acts on the running process from outside until the work is done or the process is gone (ctx ends); a process that
	// does not end by itself is then killed and counts as having done its work. It may be nil.
	Drive func(ctx context.Context, t testing.TB, dir string)
	// Check judges what is left after a kill, starts the work again, and judges what it leads to. It is also called, with the
	// zero Cut, after a run that was not killed.
	Check func(t testing.TB, dir string, at Cut)
	// Sample are the n that are tried unless every one is asked for; nil for 1 to 4 and then ever wider steps.
	Sample []int
	// Most bounds n for each call, for a process that goes on calling; 0 for no bound.
	Most int
	// Patience is how long one process may take; 0 for 30 s.
	Patience time.Duration
}

// Run tries the cuts. It skips the test where strace cannot trace.
func (s Scenario) Run(t *testing.T) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip(err)
	}
	for _, c := range calls {
		cuts := 0
		for n := range s.numbers() {
			killed := s.cut(t, c, n)
			if t.Failed() || !killed {
				break
			}
			cuts++
		}
		t.Logf("%s: killed at %d calls", c.name, cuts)
	}
}

// numbers are the n that are tried, as long as they kill.
func (s Scenario) numbers() iter.Seq[int] {
	all := os.Getenv(Everything) == "all"
	return func(yield func(int) bool) {
		if !all && s.Sample != nil {
			for _, n := range s.Sample {
				if !yield(n) {
					return
				}
			}
			return
		}
		for n := 1; s.Most == 0 || n <= s.Most; n++ {
			if !yield(n) {
				return
			}
			if !all && n >= 4 {
				n += n/2 - 1
			}
		}
	}
}

// cut runs the scenario once and tells whether the process was killed.
func (s Scenario) cut(t *testing.T, c call, n int) (killed bool) {
	t.Helper()
	at := Cut{Call: c.name, N: n}
	t.Run(at.String(), func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if s.Prepare != nil {
			s.Prepare(t, dir)
		}
		killed = s.process(t, dir, c, n)
		if !killed {
			at = Cut{}
		}
		s.Check(t, dir, at)
	})
	return killed
}

// process runs the process until it is killed at its n-th call or has done its work.
func (s Scenario) process(t *testing.T, dir string, c call, n int) (killed bool) {
	t.Helper()
	patience := s.Patience
	if patience == 0 {
		patience = 30 * time.Second
	}
	inner := s.Command(dir)
	var said bytes.Buffer
	cmd := exec.Command("strace", append([]string{
		"-f", "-qq", "-o", os.DevNull, "-e", "trace=" + c.syscalls, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", c.syscalls, n), "--",
	}, inner.Args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = inner.Env, &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that strace and the process end together
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	driven := make(chan struct{})
	if s.Drive != nil {
		go func() {
			defer close(driven)
			s.Drive(ctx, t, dir)
		}()
	}
	defer func() {
		cancel()
		if s.Drive != nil {
			<-driven
		}
	}()
	select {
	case err := <-ended:
		return s.judgeEnd(t, err, said.String())
	case <-driven:
		return endGroup(t, cmd, ended)
	case <-ctx.Done():
		endGroup(t, cmd, ended)
		t.Fatalf("the process did not end within %s:\n%s", patience, said.String())
		return false
	}
}

// judgeEnd tells a kill from an end in order.
func (s Scenario) judgeEnd(t *testing.T, err error, said string) (killed bool) {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL: //nolint:forcetypeassert // on Unix it is
		return true // strace ends as what it traces
	}
	t.Fatalf("the process ended with %v:\n%s", err, said)
	return false
}

// endGroup ends a process whose work is done. It may have been killed at its call while its work was judged to be done.
func endGroup(t *testing.T, cmd *exec.Cmd, ended <-chan error) (killed bool) {
	t.Helper()
	select {
	case <-ended:
		return true
	default:
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	<-ended
	return false
}

// Available tells why processes cannot be killed at their calls here; nil when they can.
func Available() error {
	path, err := exec.LookPath("strace")
	if err != nil {
		return errors.New("strace is not on PATH")
	}
	if out, err := exec.Command(path, "-qq", "-o", os.DevNull, "-e", "trace=none", path, "-V").CombinedOutput(); err != nil {
		return fmt.Errorf("strace cannot trace here: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
