package controller

import (
	"math"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// ProducerIDBlock is how many producer ids a broker gets at once.
const ProducerIDBlock = 1000

// ReserveProducerIDs gives the caller the next block of producer ids (Kafka's AllocateProducerIds). A block is never
// given out twice; one that is lost with its broker stays unused.
func ReserveProducerIDs(img *fsm.Image, env *Env, req *controllerv1.ReserveProducerIDsRequest) Decision[*controllerv1.ReserveProducerIDsResponse] {
	b, ok := holder(img, req.GetBrokerId(), req.GetBrokerEpoch())
	if !ok {
		stale := staleBroker(b, req.GetBrokerId(), req.GetBrokerEpoch())
		return refuse[*controllerv1.ReserveProducerIDsResponse](stale.GetCode(), "%s", stale.GetMessage())
	}
	first := img.NextProducerID()
	if first > math.MaxInt64-ProducerIDBlock {
		return refuse[*controllerv1.ReserveProducerIDsResponse](controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR,
			"producer ids are used up: the next one is %d, and a block has %d", first, ProducerIDBlock)
	}
	record := &metadatav1.Record{Kind: &metadatav1.Record_ProducerIds{ProducerIds: &metadatav1.ProducerIDs{
		BrokerId: b.ID, BrokerEpoch: b.Epoch, NextProducerId: first + ProducerIDBlock,
	}}}
	why := reason("producer_ids_reserved", "broker %d asked for producer ids", b.ID)
	return Decision[*controllerv1.ReserveProducerIDsResponse]{
		Batches: env.batches(img, why, []*metadatav1.Record{record}),
		Reply:   &controllerv1.ReserveProducerIDsResponse{FirstProducerId: first, Count: ProducerIDBlock},
	}
}
