package up

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/skiffmq/skiff/cmd/child"
)

// logBytesMax is the size over which a node's log is set aside when the node is started.
const logBytesMax = 64 << 20

// launcher starts the processes of the nodes.
type launcher struct {
	executable string
	children   *child.Starter
	network    *network // nil without namespaces
}

// start starts a node; what it writes goes to the end of its log.
func (l *launcher) start(s Spec, where layout) (*exec.Cmd, error) {
	logFile, err := openLog(where.log(s.Name))
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	line := []string{l.executable, daemon(s.Role), "--config", where.conf(s.Name)}
	if l.network != nil {
		line = l.network.wires.Command(s.Name, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Env = childEnvironment(os.Environ())
	if err := l.children.Start(cmd); err != nil {
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
