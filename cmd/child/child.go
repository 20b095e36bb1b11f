// Package child starts processes that do not outlive this one.
//
// On Linux the kernel kills a child when the thread that started it ends. Go ends threads as it likes, so all children of a [Starter]
// are started from one thread that lives as long as the Starter. Elsewhere only an orderly end of this process ends its children.
// Children lead process groups of their own: a Ctrl-C at the terminal reaches this process alone, which ends them in its order.
package child

import (
	"os/exec"
	"runtime"
)

// Starter starts processes from one thread.
type Starter struct {
	requests chan request
	ended    chan struct{}
}

type request struct {
	cmd    *exec.Cmd
	result chan error
}

// NewStarter returns a Starter. It is closed with Close when every child has been waited for.
func NewStarter() *Starter {
	s := &Starter{requests: make(chan request), ended: make(chan struct{})}
	go s.run()
	return s
}

func (s *Starter) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(s.ended)
	for r := range s.requests {
		r.result <- r.cmd.Start()
	}
}

// Start starts the command as exec.Cmd.Start does. It sets cmd.SysProcAttr.
func (s *Starter) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes()
	result := make(chan error, 1)
	s.requests <- request{cmd: cmd, result: result}
	return <-result
}

// Close ends the thread, and with it, on Linux, every child that still runs.
func (s *Starter) Close() {
	close(s.requests)
	<-s.ended
}
