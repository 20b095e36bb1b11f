package quorum

import "fmt"

// Exit codes of a node that stops by itself.
const (
	// ExitBroken means that the node met a state it must not go on from; starting it again is right.
	ExitBroken = 70
	// ExitRefused means that identity forbids to start; starting it again cannot help.
	ExitRefused = 78
)

// StopError ends the process: it tells a person why, and what to do.
type StopError struct {
	// Code is ExitBroken or ExitRefused.
	Code int
	// Cause is one line with the values that differ and the file that holds them.
	Cause string
	// Fix is one line: the next step.
	Fix string
	// Err is the error underneath, or nil.
	Err error
}

// Error is the cause.
func (e *StopError) Error() string { return e.Cause }

// Unwrap gives the error underneath.
func (e *StopError) Unwrap() error { return e.Err }

func refuse(fix, format string, args ...any) *StopError {
	err := fmt.Errorf(format, args...)
	return &StopError{Code: ExitRefused, Cause: err.Error(), Fix: fix, Err: err}
}

func broken(fix, format string, args ...any) *StopError {
	err := fmt.Errorf(format, args...)
	return &StopError{Code: ExitBroken, Cause: err.Error(), Fix: fix, Err: err}
}
