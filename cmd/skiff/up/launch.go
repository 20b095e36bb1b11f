package up

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// logBytesMax is the size over which a node's log is set aside when the node is started.
const logBytesMax = 64 << 20

// launcher starts child processes, all of them from one thread that lives as long as the launcher: on Linux the signal that ends the
// children when `up` dies is bound to the thread that started them, and Go's other threads may end at any time.
type launcher struct {
	executable string
	requests   chan launchRequest
	ended      chan struct{}
}

type launchRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func newLauncher(executable string) *launcher {
	l := &launcher{executable: executable, requests: make(chan launchRequest), ended: make(chan struct{})}
	go l.run()
	return l
}

func (l *launcher) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(l.ended)
	for r := range l.requests {
		r.result <- r.cmd.Start()
	}
}

// close ends the thread; every child must have been waited for.
func (l *launcher) close() {
	close(l.requests)
	<-l.ended
}

// start starts a node; what it writes goes to the end of its log.
func (l *launcher) start(s Spec, where layout) (*exec.Cmd, error) {
	logFile, err := openLog(where.log(s.Name))
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(l.executable, daemon(s.Role), "--config", where.conf(s.Name))
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Env = childEnvironment(os.Environ())
	cmd.SysProcAttr = childAttributes()
	result := make(chan error, 1)
	l.requests <- launchRequest{cmd: cmd, result: result}
	if err := <-result; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return cmd, nil
}

// daemon is the subcommand of a role.
func daemon(role string) string {
	if role == Quorum {
		return "quorumd"
	}
	return "brokerd"
}

// childEnvironment leaves the variables out that stand for keys: what a node of `up` is, its file alone says.
func childEnvironment(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		if !strings.HasPrefix(variable, "SKIFF_") && !strings.HasPrefix(variable, "KAFKA_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > logBytesMax {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("set the log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

// exitCode of a process that has been waited for; -1 when a signal ended it.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
