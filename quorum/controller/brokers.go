package controller

import (
	"bytes"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// maxRegistrationBytes bounds what one broker may register, names of hosts and all (I20).
const maxRegistrationBytes = 64 << 10

// RegisterBroker makes the caller the holder of a broker id (Kafka's BrokerRegistration).
//
// The same incarnation amends its registration and keeps its broker epoch, unless an earlier lineage gave it. A new
// incarnation is fenced and gets a new
// epoch: the metadata offset of its own RegisterBroker record, so that it is caught up once it has applied that offset.
func RegisterBroker(img *fsm.Image, env *Env, req *controllerv1.RegisterRequest) Decision[*controllerv1.RegisterResponse] {
	if refusal := env.checkRegistration(img, req); refusal != nil {
		return Decision[*controllerv1.RegisterResponse]{Refused: refusal}
	}
	records, why := env.register(img, req)
	rec := records[len(records)-1].GetRegisterBroker()
	if size := proto.Size(rec); size > maxRegistrationBytes {
		return refuse[*controllerv1.RegisterResponse](controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION,
			"the registration of broker %d has %d bytes, at most %d are taken", rec.GetBrokerId(), size, maxRegistrationBytes)
	}
	epoch, now := rec.GetBrokerEpoch(), env.Now
	return Decision[*controllerv1.RegisterResponse]{
		Batches: env.batches(img, why, records),
		Reply: &controllerv1.RegisterResponse{
			BrokerEpoch:      epoch,
			MetadataOffset:   epoch,
			ClusterId:        img.ClusterID(),
			SessionTimeoutMs: env.Liveness.SessionTimeout().Milliseconds(),
		},
		Remember: func(l *Liveness) { l.Touch(req.GetBrokerId(), epoch, unknownOffset, now) },
	}
}

// register makes the records of a registration: what the old incarnation leaves first, the registration last.
func (e *Env) register(img *fsm.Image, req *controllerv1.RegisterRequest) ([]*metadatav1.Record, *metadatav1.Reason) {
	rec := &metadatav1.RegisterBroker{
		BrokerId:      req.GetBrokerId(),
		IncarnationId: req.GetIncarnationId(),
		Listeners:     req.GetListeners(),
		Features:      req.GetFeatures(),
		Rack:          req.Rack,
		Directories:   req.GetDirectories(),
	}
	was, known := img.Broker(req.GetBrokerId())
	var records []*metadatav1.Record
	var why *metadatav1.Reason
	if known && was.Epoch != fsm.VoidEpoch && bytes.Equal(was.IncarnationID.Bytes(), req.GetIncarnationId()) {
		rec.BrokerEpoch, rec.Fenced, rec.InControlledShutdown = was.Epoch, was.Fenced, was.InControlledShutdown
		why = reason("broker_amended", "broker %d registered again with the same incarnation", was.ID)
	} else {
		records = e.leave(img, []int32{req.GetBrokerId()}, lostBy(was, known, req))
		rec.BrokerEpoch, rec.Fenced = img.NextOffset()+int64(len(records)), true
		why = registrationReason(was, known, req)
	}
	return append(records, &metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: rec}}), why
}

// lostBy lists the broker that registers unless it proves, by the epoch that it kept at a clean stop, that its logs have
// all that was in them (KIP-966).
func lostBy(was *fsm.Broker, known bool, req *controllerv1.RegisterRequest) []int32 {
	if known && req.GetPreviousBrokerEpoch() == was.Epoch {
		return nil
	}
	return []int32{req.GetBrokerId()}
}

func registrationReason(was *fsm.Broker, known bool, req *controllerv1.RegisterRequest) *metadatav1.Reason {
	switch {
	case known && was.Epoch == fsm.VoidEpoch:
		return reason("broker_registered", "broker %d registered, which an earlier lineage knew", was.ID)
	case !known:
		return reason("broker_registered", "broker %d registered, which was not known", req.GetBrokerId())
	case req.GetPreviousBrokerEpoch() == was.Epoch:
		return reason("broker_registered", "broker %d started again after a clean stop", was.ID)
	}
	return reason("broker_registered", "broker %d started again without a clean stop", was.ID)
}

// UnregisterBroker forgets a broker, alive or not (Kafka's UnregisterBroker). Its id stays in the replica lists. A live
// process is answered STALE_BROKER_EPOCH from then on and registers again.
func UnregisterBroker(img *fsm.Image, env *Env, req *controllerv1.UnregisterBrokerRequest) Decision[*controllerv1.UnregisterBrokerResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.UnregisterBrokerResponse]{Refused: refused}
	}
	id := req.GetBrokerId()
	b, ok := img.Broker(id)
	if !ok {
		return refuse[*controllerv1.UnregisterBrokerResponse](
			controllerv1.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, "broker %d is not registered", id)
	}
	records := append(env.leave(img, []int32{id}, []int32{id}), &metadatav1.Record{
		Kind: &metadatav1.Record_UnregisterBroker{
			UnregisterBroker: &metadatav1.UnregisterBroker{BrokerId: id, BrokerEpoch: b.Epoch},
		},
	})
	return Decision[*controllerv1.UnregisterBrokerResponse]{
		Batches:  env.batches(img, reason("broker_unregistered", "broker %d was unregistered by request", id), records),
		Reply:    &controllerv1.UnregisterBrokerResponse{},
		Remember: func(l *Liveness) { l.Forget(id) },
	}
}
