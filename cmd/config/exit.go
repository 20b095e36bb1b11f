package config

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Exit codes of every binary. They are part of the interface: scripts and service managers act on them.
const (
	// ExitOK is success.
	ExitOK = 0
	// ExitFailed means that the request, or any part of it, failed.
	ExitFailed = 1
	// ExitUsage means that the command line or the configuration is wrong.
	ExitUsage = 2
	// ExitUnhealthy means that the cluster was reached and is not healthy.
	ExitUnhealthy = 10
	// ExitBroken means that the process met a state it must not go on from; starting it again is right.
	ExitBroken = 70
	// ExitRefused means that identity or configuration forbid to start; starting it again cannot help.
	ExitRefused = 78
)

// ExitError ends a process with a code, and tells a person why and what to do.
type ExitError struct {
	// Code is the exit code, one of the Exit constants.
	Code int
	// Cause is one line: what is wrong, with the values that differ.
	Cause string
	// Fix is one line: the next step. It may be empty.
	Fix string
	// Err is the error underneath, or nil.
	Err error
}

// Error returns the cause.
func (e *ExitError) Error() string { return e.Cause }

// Unwrap returns the error underneath.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage returns an [ExitError] with [ExitUsage].
func Usage(fix, format string, args ...any) *ExitError {
	return &ExitError{Code: ExitUsage, Cause: fmt.Sprintf(format, args...), Fix: fix}
}

// Failed returns an [ExitError] with [ExitFailed].
func Failed(fix, format string, args ...any) *ExitError {
	return &ExitError{Code: ExitFailed, Cause: fmt.Sprintf(format, args...), Fix: fix}
}

// ExitCode returns the code that err asks for: 0 for nil, 1 for an error that is no [ExitError].
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return ExitFailed
}

// Report writes err as the binaries do: one line of cause and, if there is one, one line of fix. It returns the exit code.
func Report(w io.Writer, program string, err error) int {
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(w, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
	var exit *ExitError
	if errors.As(err, &exit) && exit.Fix != "" {
		fmt.Fprintf(w, "fix: %s\n", exit.Fix)
	}
	return ExitCode(err)
}
