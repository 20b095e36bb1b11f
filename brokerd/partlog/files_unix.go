//go:build unix

package partlog

import "syscall"

// processFileLimit is how many files the process may open. Go raises the soft
// limit to the hard one when it starts.
func processFileLimit() int {
	var limit syscall.Rlimit
	const most = 1 << 20
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > most {
		return most
	}
	return int(limit.Cur)
}
