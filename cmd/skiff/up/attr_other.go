//go:build unix && !linux

package up

import "syscall"

// childAttributes: a process group of its own. Only Linux can tie a child's life to its parent's.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
