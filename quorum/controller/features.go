package controller

import (
	"fmt"
	"slices"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// finalizedLevel is the level that the cluster is at. Every cluster is at level 1 of [FeatureName] without a record of it.
func finalizedLevel(img *fsm.Image, name string) int32 {
	if name == FeatureName {
		return FeatureLevel
	}
	return img.FeatureLevel(name)
}

// UpdateFeatures changes levels of features (Kafka's UpdateFeatures, version 2): all of them or none. A level must be
// one that this build, every registered quorum node and every registered broker supports. Downgrades must be asked for as
// such, and are made only while nothing depends on what the higher level wrote.
func UpdateFeatures(img *fsm.Image, env *Env, req *controllerv1.UpdateFeaturesRequest) Decision[*controllerv1.UpdateFeaturesResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.UpdateFeaturesResponse]{Refused: refused}
	}
	reply := &controllerv1.UpdateFeaturesResponse{}
	var records []*metadatav1.Record
	seen := map[string]bool{}
	good := true
	for _, update := range req.GetUpdates() {
		err := checkUpdate(img, update)
		if err == nil && seen[update.GetName()] {
			err = itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "feature %.60s is updated twice", update.GetName())
		}
		seen[update.GetName()] = true
		good = good && err == nil
		reply.Features = append(reply.Features, &controllerv1.FeatureUpdateResult{Name: update.GetName(), Error: err})
		if err == nil {
			records = append(records, env.updateRecords(img, update)...)
		}
	}
	if !good {
		return Decision[*controllerv1.UpdateFeaturesResponse]{Reply: reply}
	}
	batches, refused := env.oneBatch(img, updateReason(req), records)
	if refused != nil {
		return Decision[*controllerv1.UpdateFeaturesResponse]{Refused: refused}
	}
	return Decision[*controllerv1.UpdateFeaturesResponse]{Batches: batches, Reply: reply}
}

func updateReason(req *controllerv1.UpdateFeaturesRequest) *metadatav1.Reason {
	if len(req.GetUpdates()) == 1 {
		u := req.GetUpdates()[0]
		return reason("features_updated", "feature %s was set to level %d", u.GetName(), u.GetLevel())
	}
	return reason("features_updated", "%d features were updated", len(req.GetUpdates()))
}

func checkUpdate(img *fsm.Image, update *controllerv1.FeatureUpdate) *controllerv1.Error {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION
	name, level := update.GetName(), update.GetLevel()
	if why := unsupported(img, name, level); why != "" {
		return itemError(invalid, "%s", why)
	}
	now := finalizedLevel(img, name)
	switch update.GetType() {
	case controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE:
		if level < now {
			return itemError(invalid, "feature %s is at level %d; level %d must be asked for as a downgrade", name, now, level)
		}
	case controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE, controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE:
		if level > now {
			return itemError(invalid, "feature %s is at level %d; level %d is no downgrade", name, now, level)
		}
		return checkDowngrade(img, name, level)
	case controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSPECIFIED:
		fallthrough
	default:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "update type %d is unknown", update.GetType())
	}
	return nil
}

// unsupported says who cannot do with a level of a feature, or nothing.
func unsupported(img *fsm.Image, name string, level int32) string {
	i := slices.IndexFunc(fsm.Supported(), func(f fsm.Feature) bool { return f.Name == name })
	if i < 0 {
		return fmt.Sprintf("feature %.60q is not known to this controller", name)
	}
	if f := fsm.Supported()[i]; level < f.Min || level > f.Max {
		return fmt.Sprintf("this controller supports %s from %d to %d, not %d", name, f.Min, f.Max, level)
	}
	for n := range img.Controllers() {
		if !supports(n.Features, name, level) {
			return fmt.Sprintf("quorum node %d does not support level %d of %s", n.ID, level, name)
		}
	}
	for b := range img.Brokers() {
		if !supports(b.Features, name, level) {
			return fmt.Sprintf("broker %d does not support level %d of %s", b.ID, level, name)
		}
	}
	return ""
}

// supports tells whether a registration covers a level. One that does not name the feature supports it at 0, which is
// without it; [FeatureName] is at 1 without being named.
func supports(features []fsm.Feature, name string, level int32) bool {
	for _, f := range features {
		if f.Name == name {
			return f.Min <= level && level <= f.Max
		}
	}
	return level == 0 || (name == FeatureName && level == FeatureLevel)
}

// checkDowngrade refuses to go below what the metadata already needs. With ELR off an empty ISR says that nobody has the
// records, which is not what it said when it was written (I8).
func checkDowngrade(img *fsm.Image, name string, level int32) *controllerv1.Error {
	if name != fsm.FeatureELR || level > 0 {
		return nil
	}
	for id := range img.Leaderless() {
		p, ok := img.Partition(id)
		if !ok || len(p.ISR) > 0 || p.AwaitingInventory {
			continue
		}
		topic, _ := img.Topic(id.Topic)
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION,
			"partition %s-%d has no ISR, and only its list of eligible replicas %v says who has its records; bring one of them back first",
			topic.Name(), id.Partition, p.ELR)
	}
	return nil
}

// updateRecords are the level and what goes with it. While ELR is on, min.insync.replicas is set for the whole cluster
// and for no single broker, so that everybody means the same by it (KIP-966).
func (e *Env) updateRecords(img *fsm.Image, update *controllerv1.FeatureUpdate) []*metadatav1.Record {
	name, level := update.GetName(), update.GetLevel()
	if level == finalizedLevel(img, name) {
		return nil
	}
	records := []*metadatav1.Record{{Kind: &metadatav1.Record_FeatureLevel{FeatureLevel: &metadatav1.FeatureLevel{Name: name, Level: level}}}}
	if name != fsm.FeatureELR {
		return records
	}
	if level == 0 {
		return append(records, clearELRRecord(fsm.BrokerResource("")))
	}
	return append(records, e.minISRRecords(img)...)
}

func (e *Env) minISRRecords(img *fsm.Image) []*metadatav1.Record {
	const key = topicconfig.MinInSyncReplicas
	var records []*metadatav1.Record
	if _, ok := img.ConfigValue(fsm.BrokerResource(""), key); !ok {
		v, _ := topicconfig.Effective(img, e.Defaults.Topics, "", key) // no topic has this name
		records = append(records, configRecord(fsm.BrokerResource(""), key, v.Value, true))
	}
	for b := range img.Brokers() {
		resource := fsm.BrokerResource(fmt.Sprint(b.ID))
		if _, ok := img.ConfigValue(resource, key); ok {
			records = append(records, configRecord(resource, key, "", false))
		}
	}
	return records
}
