package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, key 22, versions 0 to 4: a producer id for an idempotent producer, with producer epoch 0.
//
// Ids come from blocks that the controller hands out, so none is given twice in the life of a cluster. A producer that wants
// to raise its epoch (version 3) gets a new id, as in Kafka. While no block can be had the answer is
// COORDINATOR_LOAD_IN_PROGRESS, and clients ask again. A transactional id is TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
var initProducerIDAPI = api{
	key:        22,
	advertised: versions(0, 4),
	served:     versions(0, 4),
	handle:     handled((*Server).initProducerID),
}

// producerIDTimeout bounds the wait for a block of producer ids.
const producerIDTimeout = 10 * time.Second

// initProducerID gives out one id.
func (s *Server) initProducerID(ctx context.Context, _ *call, req *kmsg.InitProducerIDRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.InitProducerIDResponse](req)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case req.TransactionalID != nil:
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return resp, nil
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	ctx, cancel := context.WithTimeout(ctx, producerIDTimeout)
	defer cancel()
	id, err := s.producerIDs.next(ctx)
	if err != nil {
		s.hostile.warn("no producer id to give out", "error", err)
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp, nil
}
