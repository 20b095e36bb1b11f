package controller

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// reservedDirectories is how many of the lowest uuids Kafka keeps for itself (UNASSIGNED, LOST, MIGRATING among them).
const reservedDirectories = 100

func refusal(code controllerv1.ErrorCode, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// checkRegistration runs Kafka's checks in Kafka's order (ClusterControlManager.registerBroker).
func (e *Env) checkRegistration(img *fsm.Image, req *controllerv1.RegisterRequest) *Refusal {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION
	if id := req.GetClusterId(); id != "" && id != img.ClusterID() {
		return refusal(controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID,
			"broker %d belongs to cluster %s, this is cluster %s", req.GetBrokerId(), id, img.ClusterID())
	}
	if req.GetBrokerId() < 0 {
		return refusal(invalid, "broker id %d is negative", req.GetBrokerId())
	}
	incarnation, err := fsm.UUIDFromBytes(req.GetIncarnationId())
	if err != nil || incarnation.IsZero() {
		return refusal(invalid, "broker %d sent no incarnation id of 16 bytes", req.GetBrokerId())
	}
	if r := e.checkNotAlive(img, req, incarnation); r != nil {
		return r
	}
	if r := checkDirectories(img, req); r != nil {
		return r
	}
	if r := checkEndpoints(req); r != nil {
		return r
	}
	if r := checkFeatures(img, req); r != nil {
		return r
	}
	return e.checkRecordsKept(img, req, incarnation)
}

// checkNotAlive refuses a second process under an id whose process lives. Two processes cannot hold the lock of one
// directory, so a new incarnation on a directory of the old one proves that the old one is dead.
func (e *Env) checkNotAlive(img *fsm.Image, req *controllerv1.RegisterRequest, incarnation fsm.UUID) *Refusal {
	was, ok := img.Broker(req.GetBrokerId())
	if !ok || was.IncarnationID == incarnation || sharesDirectory(was, req.GetDirectories()) {
		return nil
	}
	if !e.Liveness.Alive(was.ID, was.Epoch, e.Now) {
		return nil
	}
	return refusal(controllerv1.ErrorCode_ERROR_CODE_DUPLICATE_BROKER_REGISTRATION,
		"broker id %d is held by incarnation %s on other directories, and its session lives; stop that process or choose another id",
		was.ID, was.IncarnationID)
}

// checkRecordsKept refuses a broker that comes back on other directories while it is the last ISR member of partitions.
// It would lead them with empty logs, and so give up acknowledged records without anybody having decided that.
func (e *Env) checkRecordsKept(img *fsm.Image, req *controllerv1.RegisterRequest, incarnation fsm.UUID) *Refusal {
	was, ok := img.Broker(req.GetBrokerId())
	if !ok || was.IncarnationID == incarnation || sharesDirectory(was, req.GetDirectories()) {
		return nil
	}
	n, first := 0, ""
	for id := range img.PartitionsOf(was.ID) {
		p, ok := img.Partition(id)
		if !ok || !slices.Contains(p.ISR, was.ID) || !slices.Contains(e.leaveISR(img, id, p, []int32{was.ID}, nil).after().ISR, was.ID) {
			continue
		}
		if t, ok := img.Topic(id.Topic); ok && n == 0 {
			first = fmt.Sprintf("%s-%d", t.Name(), id.Partition)
		}
		n++
	}
	if n == 0 {
		return nil
	}
	return refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION,
		"broker %d comes back on other directories, and only the old ones have all records of %d partitions, %s among them; "+
			"bring the old directories back, or elect other leaders uncleanly, or unregister the broker to give these records up",
		was.ID, n, first)
}

func sharesDirectory(was *fsm.Broker, directories [][]byte) bool {
	for _, mine := range was.Directories {
		for _, theirs := range directories {
			if bytes.Equal(mine.Bytes(), theirs) {
				return true
			}
		}
	}
	return false
}

func checkDirectories(img *fsm.Image, req *controllerv1.RegisterRequest) *Refusal {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION
	id := req.GetBrokerId()
	if len(req.GetDirectories()) == 0 {
		return refusal(invalid, "broker %d names no directory", id)
	}
	seen := map[fsm.UUID]bool{}
	for _, raw := range req.GetDirectories() {
		directory, err := fsm.UUIDFromBytes(raw)
		switch {
		case err != nil:
			return refusal(invalid, "broker %d names a directory id of %d bytes, not 16", id, len(raw))
		case isReserved(directory):
			return refusal(invalid, "broker %d names directory %s, which is reserved", id, directory)
		case seen[directory]:
			return refusal(invalid, "broker %d names directory %s twice", id, directory)
		}
		seen[directory] = true
	}
	for other := range img.Brokers() {
		if other.ID == id {
			continue
		}
		for _, directory := range other.Directories {
			if seen[directory] {
				return refusal(invalid, "directory %s of broker %d belongs to broker %d", directory, id, other.ID)
			}
		}
	}
	return nil
}

func isReserved(id fsm.UUID) bool {
	for _, b := range id[:15] {
		if b != 0 {
			return false
		}
	}
	return id[15] < reservedDirectories
}

// checkEndpoints sees to it that the broker can be reached, with a name that clients can choose by.
func checkEndpoints(req *controllerv1.RegisterRequest) *Refusal {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION
	listeners, err := fsm.ListenersFromProto(req.GetListeners())
	if err != nil {
		return refusal(invalid, "broker %d: %s", req.GetBrokerId(), err)
	}
	if len(listeners) == 0 {
		return refusal(invalid, "broker %d advertises no listener", req.GetBrokerId())
	}
	for _, l := range listeners {
		if l.Host == "" {
			return refusal(invalid, "broker %d advertises listener %s without a host", req.GetBrokerId(), l.Name)
		}
	}
	return nil
}

// FeatureName is the feature whose level says which records may be written, as Kafka's metadata.version does.
const FeatureName = fsm.FeatureVersion

// FeatureLevel is the level that this controller writes at.
const FeatureLevel = 1

// checkFeatures sees to it that the broker can read what is written: it supports the level that the cluster is at of
// every feature, also of those that it does not name. A broker that names no feature at all supports level 1 of the first.
func checkFeatures(img *fsm.Image, req *controllerv1.RegisterRequest) *Refusal {
	id := req.GetBrokerId()
	features, err := fsm.FeaturesFromProto(req.GetFeatures())
	if err != nil {
		return refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION, "broker %d: %s", id, err)
	}
	if named := func(f fsm.Feature) bool { return f.Name == FeatureName }; len(features) > 0 && !slices.ContainsFunc(features, named) {
		return refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION, "broker %d does not say which %s it supports", id, FeatureName)
	}
	for _, f := range features {
		if level := finalizedLevel(img, f.Name); !supports(features, f.Name, level) {
			return refusal(controllerv1.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION,
				"broker %d supports %s from %d to %d, the cluster is at %d", id, f.Name, f.Min, f.Max, level)
		}
	}
	for name, level := range img.FeatureLevels() {
		if !supports(features, name, level) {
			return refusal(controllerv1.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION, "broker %d does not support %s, the cluster is at %d", id, name, level)
		}
	}
	return nil
}
