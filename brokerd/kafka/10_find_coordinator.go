package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator, key 10, versions 0 to 4 (version 4 asks for several keys at once).
//
// There are no consumer groups yet: every group is COORDINATOR_NOT_AVAILABLE, and clients ask again. Transactions are refused
// with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because clients would ask again for ever after anything softer.
var findCoordinatorAPI = api{
	key:        10,
	advertised: versions(0, 4),
	served:     versions(0, 4),
	handle:     handled((*Server).findCoordinator),
}

// Coordinator types of FindCoordinator.
const (
	coordinatorGroup       int8 = 0
	coordinatorTransaction int8 = 1
)

// severalCoordinatorsVersion is the first version that asks for several keys (KIP-699).
const severalCoordinatorsVersion = 4

// findCoordinator answers that there is none.
func (s *Server) findCoordinator(_ context.Context, _ *call, req *kmsg.FindCoordinatorRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.FindCoordinatorResponse](req)
	refusal, message := noCoordinator(req.CoordinatorType)
	resp.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{}
	if req.Version < severalCoordinatorsVersion {
		resp.ErrorCode, resp.ErrorMessage = refusal.Code, kmsg.StringPtr(message)
		resp.NodeID, resp.Port = -1, -1
		return resp, nil
	}
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Port = key, -1, -1
		c.ErrorCode, c.ErrorMessage = refusal.Code, kmsg.StringPtr(message)
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp, nil
}

// noCoordinator says why there is no coordinator of a type.
func noCoordinator(coordinatorType int8) (refusal *kerr.Error, message string) {
	switch coordinatorType {
	case coordinatorGroup:
		return kerr.CoordinatorNotAvailable, "this cluster does not support consumer groups yet"
	case coordinatorTransaction:
		return kerr.TransactionalIDAuthorizationFailed, transactionsRefused
	default:
		return kerr.InvalidRequest, "unknown coordinator type"
	}
}
