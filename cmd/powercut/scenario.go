// Package powercut kills a process at its n-th write, sync, rename or removal of a file, for every n, and has what it left judged.
//
// A [Scenario] says how a directory looks before, which process works on it, and what must be true of it after the process was killed
// and another one went on. [Scenario.Run] repeats it for each kind of call and each n until the process ends by itself before
// its n-th call. By default a sample of n is tried; SKIFF_TEST_POWERCUT=all tries every one.
//
// The kill comes as the process enters the call: of the n-th write nothing is written. What the kernel holds in memory is not
// lost, so this shows that every prefix of the process's own steps leaves what the next start can go on from; that steps are synced in
// their order is seen by cutting at the syncs too. The calls of all threads are counted together.
package powercut

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Everything is the environment variable that asks for every n when it is "all".
const Everything = "SKIFF_TEST_POWERCUT"

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

// Run tries the cuts. It skips the test where processes cannot be traced.
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
	said, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd := s.Command(dir)
	cmd.Stdout, cmd.Stderr = said, said
	run := &tracer{call: c, nth: n, below: dir}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tracing, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan end, 1)
	go func() {
		status, err := run.trace(tracing, cmd)
		cancel() // Drive has nobody to drive any more
		ended <- end{status, err}
	}()
	if s.Drive != nil {
		s.Drive(ctx, t, dir)
		stop() // its work is done
	}
	last := <-ended
	switch text, _ := os.ReadFile(said.Name()); {
	case last.err != nil:
		t.Fatal(last.err)
	case run.killed:
		return true
	case s.Drive != nil && last.status.Signaled() || last.status.Exited() && last.status.ExitStatus() == 0:
		return false
	default:
		t.Fatalf("the process ended with %#x (within %s):\n%s", last.status, patience, text)
	}
	return false
}

// end is how a process ended.
type end struct {
	status syscall.WaitStatus
	err    error
}
