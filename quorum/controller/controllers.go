package controller

import (
	"errors"
	"slices"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// RegisterController notes where a quorum node is reached and what it supports. Repeating it changes nothing.
func RegisterController(img *fsm.Image, env *Env, rec *metadatav1.ControllerRegistered) Decision[struct{}] {
	if err := checkController(rec); err != nil {
		return refuse[struct{}](controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "quorum node %d: %s", rec.GetNodeId(), err)
	}
	if was, ok := img.Controller(rec.GetNodeId()); ok && sameController(was, rec) {
		return Decision[struct{}]{}
	}
	why := reason("controller_registered", "quorum node %d told where it is reached", rec.GetNodeId())
	record := &metadatav1.Record{Kind: &metadatav1.Record_ControllerRegistered{ControllerRegistered: rec}}
	return Decision[struct{}]{Batches: env.batches(img, why, []*metadatav1.Record{record})}
}

func checkController(rec *metadatav1.ControllerRegistered) error {
	if rec.GetNodeId() < 0 {
		return errors.New("the node id is negative")
	}
	for _, raw := range [][]byte{rec.GetDirectoryId(), rec.GetIncarnationId()} {
		if id, err := fsm.UUIDFromBytes(raw); err != nil || id.IsZero() {
			return errors.New("it must name its directory and its incarnation, 16 bytes each")
		}
	}
	if _, err := fsm.ListenersFromProto(rec.GetListeners()); err != nil {
		return err
	}
	_, err := fsm.FeaturesFromProto(rec.GetFeatures())
	return err
}

func sameController(was *fsm.Controller, rec *metadatav1.ControllerRegistered) bool {
	return slices.Equal(was.DirectoryID.Bytes(), rec.GetDirectoryId()) &&
		slices.Equal(was.IncarnationID.Bytes(), rec.GetIncarnationId()) &&
		slices.EqualFunc(was.Listeners, rec.GetListeners(), sameListener) &&
		slices.EqualFunc(was.Features, rec.GetFeatures(), sameFeature)
}

func sameListener(was fsm.Listener, l *metadatav1.Listener) bool {
	return was.Name == l.GetName() && was.Host == l.GetHost() &&
		uint32(was.Port) == l.GetPort() && was.SecurityProtocol == l.GetSecurityProtocol()
}

func sameFeature(was fsm.Feature, f *metadatav1.Feature) bool {
	return was.Name == f.GetName() && was.Min == f.GetMinLevel() && was.Max == f.GetMaxLevel()
}
