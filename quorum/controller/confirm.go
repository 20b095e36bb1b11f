package controller

import (
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// refuseUnconfirmed refuses what users ask for while the lineage is unconfirmed (I22): a restore may have been a mistake,
// and until somebody has looked nothing is done that cannot be taken back. What brokers need to serve goes on.
func refuseUnconfirmed(img *fsm.Image) *Refusal {
	if img.Confirmed() {
		return nil
	}
	return refusal(controllerv1.ErrorCode_ERROR_CODE_UNCONFIRMED,
		"the metadata was restored and lineage %s is not confirmed, so nothing was changed; look at `skiff quorum awaiting`, then run `skiff quorum confirm`",
		img.Lineage().ID)
}

// ConfirmLineage ends the time in which users' changes are refused. It names the lineage that its operator has looked
// at; another one than the cluster's is refused. Repeating it changes nothing.
func ConfirmLineage(img *fsm.Image, env *Env, req *controllerv1.ConfirmLineageRequest) Decision[*controllerv1.ConfirmLineageResponse] {
	is := img.Lineage().ID
	named, err := fsm.LineageIDFromProto(req.GetLineage())
	switch {
	case err != nil:
		return refuse[*controllerv1.ConfirmLineageResponse](controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%v; the cluster's is %s", err, is)
	case named != is:
		return refuse[*controllerv1.ConfirmLineageResponse](controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"lineage %s is to be confirmed and the cluster's is %s; look at `skiff quorum awaiting` again", named, is)
	}
	reply := &controllerv1.ConfirmLineageResponse{Already: img.Confirmed(), Awaiting: int32(img.NumAwaiting())} //nolint:gosec // no image has so many partitions
	if img.Confirmed() || req.GetValidateOnly() {
		return Decision[*controllerv1.ConfirmLineageResponse]{Reply: reply}
	}
	record := &metadatav1.Record{Kind: &metadatav1.Record_LineageConfirmed{LineageConfirmed: &metadatav1.LineageConfirmed{}}}
	batches, refused := env.oneBatch(img, reason("lineage_confirmed", "lineage %s was confirmed", is), []*metadatav1.Record{record})
	if refused != nil {
		return Decision[*controllerv1.ConfirmLineageResponse]{Refused: refused}
	}
	return Decision[*controllerv1.ConfirmLineageResponse]{Batches: batches, Reply: reply}
}
