package controller

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Kafka's numbers of config resources that have no configs here.
const (
	resourceTopic         = int32(metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC)
	resourceBroker        = int32(metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER)
	resourceBrokerLogger  = 8
	resourceClientMetrics = 16
	resourceGroup         = 32
)

// AlterConfigs changes configs (Kafka's IncrementalAlterConfigs, and AlterConfigs for resources that are replaced). Each
// resource changes as a whole or not at all, and is judged alone; the good ones take effect together. What is judged is
// the result of the changes, so that a bad value can be taken away. A resource that the request has twice is answered
// once. Unlike Kafka, which writes configs of brokers anew to have key stores read again, an unchanged value writes
// nothing.
func AlterConfigs(img *fsm.Image, env *Env, req *controllerv1.AlterConfigsRequest) Decision[*controllerv1.AlterConfigsResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.AlterConfigsResponse]{Refused: refused}
	}
	type resource struct {
		kind int32
		name string
	}
	times := map[resource]int{}
	for _, r := range req.GetResources() {
		times[resource{r.GetType(), r.GetName()}]++
	}
	c := &configuring{img: img, env: env}
	reply := &controllerv1.AlterConfigsResponse{}
	for _, r := range req.GetResources() {
		key := resource{r.GetType(), r.GetName()}
		result := &controllerv1.AlterConfigsResult{Type: r.GetType(), Name: r.GetName()}
		switch n := times[key]; {
		case n == 0:
			continue // answered already
		case n > 1:
			result.Error = itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "the resource is in the request %d times", n)
		default:
			result.Error = c.alter(r)
		}
		times[key] = 0
		reply.Resources = append(reply.Resources, result)
	}
	batches, refused := env.oneBatch(img, c.reason(), c.records)
	if refused != nil {
		return Decision[*controllerv1.AlterConfigsResponse]{Refused: refused}
	}
	return Decision[*controllerv1.AlterConfigsResponse]{Batches: batches, Reply: reply}
}

// configuring is one AlterConfigs request on its way to a decision.
type configuring struct {
	img     *fsm.Image
	env     *Env
	records []*metadatav1.Record
	changed []fsm.ConfigResource
}

func (c *configuring) reason() *metadatav1.Reason {
	if len(c.changed) == 1 {
		return reason("configs_altered", "configs of %s were altered", c.changed[0])
	}
	return reason("configs_altered", "configs of %d resources were altered", len(c.changed))
}

// alter judges one resource and, if it is good, adds its records.
func (c *configuring) alter(r *controllerv1.AlterConfigsResource) *controllerv1.Error {
	resource, err := c.resource(r)
	if err != nil {
		return err
	}
	was := map[string]string{}
	for _, e := range c.img.Configs(resource) {
		was[e.Key] = e.Value
	}
	now, err := changedConfigs(resource, was, r)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if err := c.env.checkConfig(c.img, resource, key, now[key]); err != nil {
			return err
		}
	}
	if err := c.checkELR(resource, was, now); err != nil {
		return err
	}
	c.write(resource, was, now)
	return nil
}

// resource finds out what is meant, in Kafka's order (ControllerApis, ConfigResourceExistenceChecker).
func (c *configuring) resource(r *controllerv1.AlterConfigsResource) (fsm.ConfigResource, *controllerv1.Error) {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST
	switch r.GetType() {
	case resourceTopic:
		if r.GetName() == "" {
			return fsm.ConfigResource{}, itemError(invalid, "topics have no default resource; set the cluster's default on brokers")
		}
		if _, ok := c.img.TopicByName(r.GetName()); !ok {
			return fsm.ConfigResource{}, itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic %.60q", r.GetName())
		}
		return fsm.TopicResource(r.GetName()), nil
	case resourceBroker:
		return c.brokerResource(r.GetName())
	case resourceBrokerLogger, resourceClientMetrics, resourceGroup:
		return fsm.ConfigResource{}, itemError(invalid, "only topics and brokers have configs in this version")
	}
	return fsm.ConfigResource{}, itemError(controllerv1.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION, "config resource type %d is unknown", r.GetType())
}

func (c *configuring) brokerResource(name string) (fsm.ConfigResource, *controllerv1.Error) {
	if name == "" {
		return fsm.BrokerResource(""), nil
	}
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return fsm.ConfigResource{}, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%.60q is no broker id", name)
	}
	id := int32(n)
	_, broker := c.img.Broker(id)
	_, controller := c.img.Controller(id)
	if !broker && !controller {
		return fsm.ConfigResource{}, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "no broker %d is registered", id)
	}
	return fsm.BrokerResource(strconv.FormatInt(n, 10)), nil
}

// changedConfigs are the values that a resource will have.
func changedConfigs(resource fsm.ConfigResource, was map[string]string, r *controllerv1.AlterConfigsResource) (map[string]string, *controllerv1.Error) {
	now := maps.Clone(was)
	if r.GetReplace() {
		now = map[string]string{}
	}
	seen := map[string]bool{}
	for _, change := range r.GetChanges() {
		if seen[change.GetKey()] {
			return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%.60s is changed twice", change.GetKey())
		}
		seen[change.GetKey()] = true
		if err := applyChange(resource, now, change); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func applyChange(resource fsm.ConfigResource, now map[string]string, change *controllerv1.ConfigChange) *controllerv1.Error {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST
	key, operation := change.GetKey(), change.GetOperation()
	if operation == controllerv1.ConfigOperation_CONFIG_OPERATION_DELETE {
		delete(now, key)
		return nil
	}
	if change.Value == nil {
		return itemError(invalid, "%.60s has no value", key)
	}
	switch operation {
	case controllerv1.ConfigOperation_CONFIG_OPERATION_SET:
		now[key] = change.GetValue()
		return nil
	case controllerv1.ConfigOperation_CONFIG_OPERATION_APPEND, controllerv1.ConfigOperation_CONFIG_OPERATION_SUBTRACT:
		return changeList(resource, now, change)
	case controllerv1.ConfigOperation_CONFIG_OPERATION_UNSPECIFIED, controllerv1.ConfigOperation_CONFIG_OPERATION_DELETE:
	}
	return itemError(invalid, "operation %d on %.60s is unknown", operation-1, key)
}

// changeList adds members to a list, or takes them away. A key that is not set begins with its default. An empty list is
// a value, and stays set.
func changeList(resource fsm.ConfigResource, now map[string]string, change *controllerv1.ConfigChange) *controllerv1.Error {
	key, ok := lookupConfig(resource, change.GetKey())
	if !ok || key.Type != topicconfig.TypeList {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_CONFIG, "%.60s is no list, so that nothing can be appended or subtracted", change.GetKey())
	}
	value, set := now[change.GetKey()]
	if !set {
		value = key.Default
	}
	list := splitList(value)
	for _, member := range splitList(change.GetValue()) {
		i := slices.Index(list, member)
		switch subtract := change.GetOperation() == controllerv1.ConfigOperation_CONFIG_OPERATION_SUBTRACT; {
		case subtract && i >= 0:
			list = slices.Delete(list, i, i+1)
		case !subtract && i < 0:
			list = append(list, member)
		}
	}
	now[change.GetKey()] = strings.Join(list, ",")
	return nil
}

func splitList(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	list := strings.Split(value, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func lookupConfig(resource fsm.ConfigResource, name string) (topicconfig.Key, bool) {
	if resource.Type == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER {
		return topicconfig.LookupServer(name)
	}
	return topicconfig.Lookup(name)
}

// checkConfig refuses a value without effect, by name.
func (e *Env) checkConfig(img *fsm.Image, resource fsm.ConfigResource, key, value string) *controllerv1.Error {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_CONFIG
	check := topicconfig.Validate
	if resource.Type == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER {
		check = topicconfig.ValidateServer
		if resource.Name != "" && key == topicconfig.UncleanLeaderElectionEnable {
			return itemError(invalid, "%s is the controller's affair: set it for the cluster or for a topic", key)
		}
		if resource.Name != "" && key == topicconfig.MinInSyncReplicas && img.FeatureLevel(fsm.FeatureELR) > 0 {
			return itemError(invalid, "%s of a single broker has no meaning with %s: set it for the cluster or for a topic", key, fsm.FeatureELR)
		}
	}
	if err := check(key, value); err != nil {
		return itemError(invalid, "%s", err)
	}
	return nil
}

// checkELR keeps the cluster's min.insync.replicas while eligible replicas depend on it (KIP-966).
func (c *configuring) checkELR(resource fsm.ConfigResource, was, now map[string]string) *controllerv1.Error {
	if c.img.FeatureLevel(fsm.FeatureELR) == 0 || resource != fsm.BrokerResource("") {
		return nil
	}
	_, had := was[topicconfig.MinInSyncReplicas]
	if _, has := now[topicconfig.MinInSyncReplicas]; had && !has {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_CONFIG,
			"the cluster's %s cannot be taken away while %s is on; set another value", topicconfig.MinInSyncReplicas, fsm.FeatureELR)
	}
	return nil
}

// write adds the records of what changes. Eligible replicas were found with the old min.insync.replicas, so that they
// are forgotten when it changes.
func (c *configuring) write(resource fsm.ConfigResource, was, now map[string]string) {
	keys := map[string]struct{}{}
	for key := range was {
		keys[key] = struct{}{}
	}
	for key := range now {
		keys[key] = struct{}{}
	}
	before := len(c.records)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		old, had := was[key]
		value, has := now[key]
		if had == has && old == value {
			continue
		}
		c.records = append(c.records, configRecord(resource, key, value, has))
		if key == topicconfig.MinInSyncReplicas && c.img.FeatureLevel(fsm.FeatureELR) > 0 {
			c.records = append(c.records, clearELRRecord(resource))
		}
	}
	if len(c.records) > before {
		c.changed = append(c.changed, resource)
	}
}

func configRecord(resource fsm.ConfigResource, key, value string, set bool) *metadatav1.Record {
	rec := &metadatav1.Config{ResourceType: resource.Type, ResourceName: resource.Name, Key: key}
	if set {
		rec.Value = &value
	}
	return &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: rec}}
}

// clearELRRecord forgets the eligible replicas of a topic, or for another resource those of all topics.
func clearELRRecord(resource fsm.ConfigResource) *metadatav1.Record {
	rec := &metadatav1.ClearElr{}
	if resource.Type == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC {
		rec.TopicName = resource.Name
	}
	return &metadatav1.Record{Kind: &metadatav1.Record_ClearElr{ClearElr: rec}}
}
