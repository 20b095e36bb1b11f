//go:build !linux || !amd64

package powercut

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
)

type call struct{ name string }

var calls []call

type tracer struct {
	call   call
	nth    int
	below  string
	killed bool
}

var errNoTrace = errors.New("processes are traced on Linux on amd64 only")

func (*tracer) trace(context.Context, *exec.Cmd) (syscall.WaitStatus, error) { return 0, errNoTrace }

// Available tells why processes cannot be killed at their calls here; nil when they can.
func Available() error { return errNoTrace }
