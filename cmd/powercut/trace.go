//go:build linux && amd64

package powercut

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a kind of call at which a process is killed.
type call struct {
	name     string
	syscalls []uint64
	// onFile: the first argument is a descriptor, and only calls on files below the scenario's directory count. A process
	// writes to sockets, pipes and its log as well.
	onFile bool
}

// calls are the kinds.
var calls = []call{
	{"write", []uint64{unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_PWRITEV2, unix.SYS_WRITEV, unix.SYS_FTRUNCATE}, true},
	{"sync", []uint64{unix.SYS_FSYNC, unix.SYS_FDATASYNC}, true},
	{"rename", []uint64{unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2}, false},
	{"unlink", []uint64{unix.SYS_UNLINK, unix.SYS_UNLINKAT}, false},
}

// What the kernel says in reply to PTRACE_GET_SYSCALL_INFO (ptrace(2)): op at 0, the number at 24, the arguments from 32.
const (
	ptraceGetSyscallInfo = 0x420e
	syscallInfoBytes     = 88
	syscallInfoEntry     = 1
	syscallStop          = syscall.SIGTRAP | 0x80
)

// tracer runs one process and kills it as it enters its nth call of a kind. It counts the calls of all threads together,
// so that nth runs through every call that the process makes.
type tracer struct {
	call  call
	nth   int
	below string // only files below it count

	pid    int
	seen   int
	killed bool
	known  map[int]bool // threads that have stopped before
}

// trace runs cmd to its end, or until ctx ends, and tells whether it was killed at its nth call. Its goroutine keeps its
// thread: a process is traced by the thread that started it.
func (t *tracer) trace(ctx context.Context, cmd *exec.Cmd) (syscall.WaitStatus, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	t.pid, t.known = cmd.Process.Pid, map[int]bool{cmd.Process.Pid: true}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(t.pid, syscall.SIGKILL) }) // it may have ended
	defer stop()
	var status syscall.WaitStatus
	if _, err := wait(t.pid, &status); err != nil || !status.Stopped() {
		return status, fmt.Errorf("the process did not stop at its start: %#x, %w", status, err)
	}
	const options = syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	if err := syscall.PtraceSetOptions(t.pid, options); err != nil {
		return status, fmt.Errorf("trace: %w", err)
	}
	return t.follow()
}

// follow lets every thread run from call to call until the process has ended.
func (t *tracer) follow() (syscall.WaitStatus, error) {
	var status syscall.WaitStatus
	for tid := t.pid; ; {
		deliver := t.stopped(tid, status)
		if err := syscall.PtraceSyscall(tid, int(deliver)); err != nil && !errors.Is(err, syscall.ESRCH) { // killed meanwhile
			return status, fmt.Errorf("let thread %d go on: %w", tid, err)
		}
		for {
			var err error
			if tid, err = wait(-1, &status); err != nil {
				return status, fmt.Errorf("wait for the process: %w", err)
			}
			if status.Stopped() {
				break
			}
			if tid == t.pid {
				return status, nil
			}
		}
	}
}

// stopped looks at a thread that has stopped and gives the signal to let it go on with, 0 for none.
func (t *tracer) stopped(tid int, status syscall.WaitStatus) syscall.Signal {
	fresh := !t.known[tid]
	t.known[tid] = true
	switch signal := status.StopSignal(); {
	case signal == syscallStop:
		if !t.killed && t.counts(tid) {
			if t.seen++; t.seen == t.nth {
				t.killed = true
				_ = syscall.Kill(t.pid, syscall.SIGKILL) // it is stopped and cannot have ended
			}
		}
		return 0
	case signal == syscall.SIGTRAP || fresh && signal == syscall.SIGSTOP || !status.Stopped():
		return 0 // the kernel's own: a new thread, the start
	default:
		return signal
	}
}

// counts tells whether the thread enters a call of the kind.
func (t *tracer) counts(tid int) bool {
	var info [syscallInfoBytes]byte
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(tid), uintptr(len(info)), uintptr(unsafe.Pointer(&info[0])), 0, 0)
	if errno != 0 || info[0] != syscallInfoEntry || !slices.Contains(t.call.syscalls, binary.NativeEndian.Uint64(info[24:])) {
		return false
	}
	if !t.call.onFile {
		return true
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, int32(binary.NativeEndian.Uint64(info[32:]))))
	return err == nil && strings.HasPrefix(path, t.below)
}

// wait waits for a process or, with -1, for whatever this thread traces; other children of this process are left alone.
func wait(pid int, status *syscall.WaitStatus) (int, error) {
	for {
		tid, err := syscall.Wait4(pid, status, syscall.WALL|unix.WNOTHREAD, nil)
		if !errors.Is(err, syscall.EINTR) {
			return tid, err
		}
	}
}

// Available tells why processes cannot be killed at their calls here; nil when they can.
func Available() error {
	t := &tracer{call: calls[0], below: os.DevNull}
	status, err := t.trace(context.Background(), exec.Command("true"))
	if err != nil {
		return err
	}
	if !status.Exited() || status.ExitStatus() != 0 {
		return fmt.Errorf("a process that does nothing ended with %#x under trace", status)
	}
	return nil
}
