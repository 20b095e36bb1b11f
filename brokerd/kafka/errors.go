package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// This file is the only place where errors become Kafka's codes. A test reads the sources of the packages below us and
// demands a line here for each of their sentinels, and one for each code of the controller.

// errorCode is one line of the table.
type errorCode struct {
	err  error
	code *kerr.Error
}

// errorCodes is searched from the top: an error that wraps two sentinels has the code of the first.
var errorCodes = []errorCode{
	{replica.ErrUnknownPartition, kerr.NotLeaderForPartition}, // the metadata knows the partition, or the handler would have said so
	{replica.ErrNotLeaderOrFollower, kerr.NotLeaderForPartition},
	{replica.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch},
	{replica.ErrUnknownLeaderEpoch, kerr.UnknownLeaderEpoch},
	{replica.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
	{replica.ErrNotEnoughReplicasAfterAppend, kerr.NotEnoughReplicasAfterAppend},
	{replica.ErrRequestTimedOut, kerr.RequestTimedOut},
	{replica.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{replica.ErrOffsetNotAvailable, kerr.OffsetNotAvailable},
	{replica.ErrLeaderEpochNotAbove, kerr.NotLeaderForPartition}, // the role was refused: somebody else must lead
	{replica.ErrStorage, kerr.KafkaStorageError},
	{replica.ErrClosed, kerr.NotLeaderForPartition}, // the broker stops: its successor leads

	{partlog.ErrBatchTooLarge, kerr.MessageTooLarge},
	{partlog.ErrCorruptBatch, kerr.CorruptMessage},
	{partlog.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{partlog.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	{partlog.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{partlog.ErrNonContiguous, kerr.UnknownServerError}, // of a follower's append, which no client makes
	{partlog.ErrLeaderEpoch, kerr.NotLeaderForPartition},
	{partlog.ErrStorage, kerr.KafkaStorageError},
	{partlog.ErrClosed, kerr.KafkaStorageError},
	{partlog.ErrIdentity, kerr.KafkaStorageError},
	{partlog.ErrUnsupportedVersion, kerr.KafkaStorageError},

	{recordbatch.ErrCorrupt, kerr.CorruptMessage},
	{recordbatch.ErrInvalidRecord, kerr.InvalidRecord},
	{recordbatch.ErrTooLarge, kerr.MessageTooLarge},
	{recordbatch.ErrUnsupportedMagic, kerr.InvalidRecord}, // as Kafka answers old formats in new requests
	{recordbatch.ErrUnsupportedCodec, kerr.UnsupportedCompressionType},
	{recordbatch.ErrInvalidTimestamp, kerr.InvalidTimestamp},
	{recordbatch.ErrExpansion, kerr.MessageTooLarge},

	{client.ErrClosed, kerr.NotController}, // the broker stops: nothing was done, and another broker can be asked

	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// controllerCodes are the codes of the controller that are not Kafka's own numbers.
var controllerCodes = map[controllerv1.ErrorCode]*kerr.Error{
	controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN: kerr.RequestTimedOut,
	controllerv1.ErrorCode_ERROR_CODE_LINEAGE_BEHIND:  kerr.NotController,
	controllerv1.ErrorCode_ERROR_CODE_UNFORMATTED:     kerr.NotController,
	controllerv1.ErrorCode_ERROR_CODE_FROZEN:          kerr.NotController,
	controllerv1.ErrorCode_ERROR_CODE_OVERLOADED:      kerr.NotController, // nothing was done, and clients repeat after this one
	// A restored cluster that nobody has confirmed yet: repeating does not help, an operator must look. The message says what to run.
	controllerv1.ErrorCode_ERROR_CODE_UNCONFIRMED: kerr.PolicyViolation,
}

// firstOwnCode is the first code of the controller that is not Kafka's.
const firstOwnCode = 1001

// codeOf returns Kafka's code for an error, and whether the error is one that may happen.
func codeOf(err error) (code int16, known bool) {
	if err == nil {
		return 0, true
	}
	if refused := client.CodeOf(err); refused != controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return controllerCode(refused), true
	}
	for _, e := range errorCodes {
		if errors.Is(err, e.err) {
			return e.code.Code, true
		}
	}
	return kerr.UnknownServerError.Code, false
}

// code returns Kafka's code for an error, and logs one that nobody foresaw.
func (s *Server) code(err error) int16 {
	code, known := codeOf(err)
	if !known {
		s.hostile.warn("answering UNKNOWN_SERVER_ERROR", "error", err)
	}
	return code
}

// controllerCode returns Kafka's code for one of the controller's.
func controllerCode(code controllerv1.ErrorCode) int16 {
	if own, ok := controllerCodes[code]; ok {
		return own.Code
	}
	if code >= firstOwnCode { // of a newer controller
		return kerr.UnknownServerError.Code
	}
	return int16(code)
}
