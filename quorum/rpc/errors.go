package rpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// refuse makes the status of a refusal, with the address of the active controller in it.
func (d Deps) refuse(code controllerv1.ErrorCode, format string, args ...any) error {
	return statusOf(&controllerv1.Error{Code: code, Message: fmt.Sprintf(format, args...), ActiveController: d.Node.ActiveController()})
}

// notActive is the answer to everything that only the active controller may answer.
func (d Deps) notActive() error {
	return d.refuse(controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "this node is not the active controller")
}

// status makes the status of an error that package active returned.
func (d Deps) status(err error) error {
	if err == nil {
		return nil
	}
	var refusal *controller.Refusal
	if errors.As(err, &refusal) {
		return d.refuse(refusal.Code, "%s", refusal.Message)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return d.refuse(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR, "%v", err)
}

// statusOf makes a gRPC status with e as its detail.
func statusOf(e *controllerv1.Error) error {
	s := status.New(grpcCode(e.GetCode()), e.GetMessage())
	if with, err := s.WithDetails(e); err == nil {
		s = with
	}
	return s.Err()
}

// grpcCodes are what tools that know gRPC only see of a refusal; the others are FailedPrecondition.
var grpcCodes = map[controllerv1.ErrorCode]codes.Code{
	controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER:       codes.Unavailable,
	controllerv1.ErrorCode_ERROR_CODE_FROZEN:               codes.Unavailable,
	controllerv1.ErrorCode_ERROR_CODE_OVERLOADED:           codes.ResourceExhausted,
	controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN:      codes.DeadlineExceeded,
	controllerv1.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT:    codes.DeadlineExceeded,
	controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR: codes.Internal,
	controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST:      codes.InvalidArgument,
}

func grpcCode(code controllerv1.ErrorCode) codes.Code {
	if c, ok := grpcCodes[code]; ok {
		return c
	}
	return codes.FailedPrecondition
}
