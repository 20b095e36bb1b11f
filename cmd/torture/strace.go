package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// syscallPatience is how long a process may take to come to the call that kills it. It may be one that it makes rarely, or not at
// all as long as nothing happens: then the step says so and goes on.
const syscallPatience = 6 * time.Second

// straceWorks tells why processes cannot be killed at their system calls here; nil when they can.
func straceWorks() error {
	path, err := exec.LookPath("strace")
	if err != nil {
		return errors.New("strace is not on PATH")
	}
	if out, err := exec.Command(path, "-qq", "-o", os.DevNull, "-e", "trace=none", path, "-V").CombinedOutput(); err != nil {
		return fmt.Errorf("strace cannot trace here: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// killAtSyscall has a node killed as it enters its nth call. It returns false when the node did not come to it in time.
// strace counts the calls of each thread by itself.
func (s *system) killAtSyscall(ctx context.Context, name string, f Fault) (bool, error) {
	node, err := s.node(ctx, name)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, syscallPatience)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "strace", "-f", "-qq", "-o", os.DevNull, "-p", strconv.Itoa(node.PID),
		"-e", "trace="+f.Calls, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", f.Calls, f.Nth))
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it lets go of the process and ends
	cmd.WaitDelay = askTimeout
	err = cmd.Run() // ends with the process that it traces, or when ctx ends
	gone, nodeErr := s.dead(context.WithoutCancel(ctx), name, node.PID)
	switch {
	case nodeErr != nil:
		return false, nodeErr
	case !gone && ctx.Err() == nil:
		return false, fmt.Errorf("strace of %s (pid %d) ended, and the process lives: %w: %s", name, node.PID, err, strings.TrimSpace(said.String()))
	}
	return gone, nil
}

// dead tells whether the process of a node has ended. `up` may need a moment to notice.
func (s *system) dead(ctx context.Context, name string, pid int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for {
		node, err := s.node(ctx, name)
		if err != nil {
			return false, err
		}
		if node.PID != pid || node.State == up.Failed || node.State == up.Stopped {
			return true, nil
		}
		if !alive(pid) {
			rest(ctx, pollInterval)
			continue
		}
		return false, nil
	}
}

// alive tells whether a process runs; one that is dead and not yet waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
