package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/status"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Error is a refusal by the quorum, or what is left to say when the caller's context has ended.
type Error struct {
	// Code says why. OUTCOME_UNKNOWN: it may take effect, or may have. REQUEST_TIMED_OUT: the context ended, and nothing
	// was done.
	Code controllerv1.ErrorCode
	// Message is a sentence with the values that differ.
	Message string
	// ActiveController is the host:port that the refusing node took for the active controller, if it named one.
	ActiveController string
}

// Error returns code and message.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// CodeOf returns the code of an *Error in err's chain, ERROR_CODE_UNSPECIFIED if there is none.
func CodeOf(err error) controllerv1.ErrorCode {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED
}

// ErrClosed is returned when the client was closed.
var ErrClosed = errors.New("the client is closed")

// refusalOf returns the refusal that a node attached to a status, nil if no node did.
func refusalOf(err error) *Error {
	s, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range s.Details() {
		if e, ok := d.(*controllerv1.Error); ok {
			return &Error{Code: e.GetCode(), Message: e.GetMessage(), ActiveController: e.GetActiveController()}
		}
	}
	return nil
}

// refusalIn returns the refusal in err, nil if there is none.
func refusalIn(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return refusalOf(err)
}

// notDoneCodes say that nothing was done and that the same request may succeed later or elsewhere.
var notDoneCodes = map[controllerv1.ErrorCode]bool{
	controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER: true,
	controllerv1.ErrorCode_ERROR_CODE_OVERLOADED:     true,
	controllerv1.ErrorCode_ERROR_CODE_FROZEN:         true,
	controllerv1.ErrorCode_ERROR_CODE_UNFORMATTED:    true,
}

func (e *Error) notDone() bool { return notDoneCodes[e.Code] }

// mayRepeat tells whether a request that was refused so may be sent again: certainly if it was not done, and else if
// doing it twice is as good as once.
func (e *Error) mayRepeat(repeatable bool) bool {
	return e.notDone() || repeatable && e.Code == controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN
}

// wrongNode tells whether another node may be the one to ask.
func (e *Error) wrongNode() bool {
	return e.notDone() && e.Code != controllerv1.ErrorCode_ERROR_CODE_OVERLOADED
}

// timedOut is the error of a request that was certainly not done when its context ended.
func timedOut(ctx context.Context, last error) error {
	e := &Error{Code: controllerv1.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT}
	if last == nil {
		e.Message = fmt.Sprintf("no active controller was found: %v", context.Cause(ctx))
	} else {
		e.Message = fmt.Sprintf("nothing was done before the deadline; the last attempt: %v", last)
	}
	return e
}

// outcomeUnknown is the error of a request that was sent and not answered.
func outcomeUnknown(last error) *Error {
	return &Error{
		Code:    controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN,
		Message: fmt.Sprintf("the request was sent and its answer did not arrive: %v", last),
	}
}

// otherCluster is the error of an answer that comes from another cluster.
func otherCluster(addr, own, theirs string) *Error {
	return &Error{
		Code:    controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID,
		Message: fmt.Sprintf("%s belongs to cluster %q, this client to cluster %q", addr, theirs, own),
	}
}
