package up

import "syscall"

// childAttributes: a process group of its own, and death when the parent dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
