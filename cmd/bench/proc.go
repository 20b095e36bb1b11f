package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of utime and stime in /proc: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// Usage is what the kernel accounts to a process.
type Usage struct {
	// CPU is user and system time since the process started, in steps of 10 ms.
	CPU time.Duration
	// ResidentBytes is the memory that is resident now.
	ResidentBytes int64
}

// ReadUsage reads /proc for one process.
func ReadUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of pid %d: %w", pid, err)
	}
	usage, err := parseStat(string(stat))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of pid %d: %w", pid, err)
	}
	return usage, nil
}

// parseStat reads fields 14, 15 (utime, stime) and 24 (rss in pages) of proc(5) stat. The command in field 2 may hold
// blanks and brackets, so counting begins behind its last bracket.
func parseStat(stat string) (Usage, error) {
	_, rest, found := cutLast(stat, ')')
	fields := strings.Fields(rest)
	if !found || len(fields) < 22 {
		return Usage{}, fmt.Errorf("unexpected stat line %q", stat)
	}
	ticks := int64(0)
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("stat time %q: %w", field, err)
		}
		ticks += n
	}
	pages, err := strconv.ParseInt(fields[21], 10, 64)
	if err != nil {
		return Usage{}, fmt.Errorf("stat rss %q: %w", fields[21], err)
	}
	return Usage{CPU: time.Duration(ticks) * clockTick, ResidentBytes: pages * int64(os.Getpagesize())}, nil
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
