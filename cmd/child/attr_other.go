//go:build unix && !linux

package child

import "syscall"

// attributes: a process group of its own. Only Linux can tie a child's life to its parent's.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
