package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// ConfigResource is what a config belongs to.
type ConfigResource struct {
	// Type of the resource.
	Type metadatav1.ConfigResourceType
	// Name is a topic's name or a broker's id; an empty broker id is the cluster's default.
	Name string
}

// TopicResource is the resource of a topic's configs.
func TopicResource(name string) ConfigResource {
	return ConfigResource{Type: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, Name: name}
}

// BrokerResource is the resource of a broker's configs; an empty id is the cluster's default.
func BrokerResource(id string) ConfigResource {
	return ConfigResource{Type: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, Name: id}
}

// String returns for example "topic foo", "broker 1" or "cluster".
func (r ConfigResource) String() string {
	switch {
	case r.Type == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC:
		return "topic " + r.Name
	case r.Type == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER && r.Name == "":
		return "cluster"
	case r.Type == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER:
		return "broker " + r.Name
	default:
		return fmt.Sprintf("resource type %d %q", r.Type, r.Name)
	}
}

// check says why the resource cannot exist, whatever the image holds.
func (r ConfigResource) check() error {
	switch r.Type {
	case metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC:
		return CheckTopicName(r.Name)
	case metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER:
		if r.Name == "" {
			return nil
		}
		// One spelling for one broker: "01" would be a second resource for broker 1.
		id, err := strconv.ParseInt(r.Name, 10, 32)
		if err != nil || id < 0 || strconv.FormatInt(id, 10) != r.Name {
			return fmt.Errorf("broker resource %q is not a broker id", r.Name)
		}
		return nil
	case metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_UNSPECIFIED:
	}
	return fmt.Errorf("config resource type %d is not known", r.Type)
}

func compareResources(a, b ConfigResource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

// ConfigEntry is what one key is set to.
type ConfigEntry struct {
	// Key as Kafka names it.
	Key string
	// Value as text.
	Value string
}

// maxConfigKeys bounds the keys of one resource (I20); Kafka knows fewer than 300.
const maxConfigKeys = 4096

func findConfig(entries []ConfigEntry, key string) (int, bool) {
	return slices.BinarySearchFunc(entries, key, func(e ConfigEntry, k string) int { return cmp.Compare(e.Key, k) })
}

// withConfig returns a new list with key set, or removed when value is nil.
func withConfig(entries []ConfigEntry, key string, value *string) []ConfigEntry {
	i, found := findConfig(entries, key)
	out := slices.Clone(entries)
	switch {
	case value == nil && found:
		return slices.Delete(out, i, i+1)
	case value == nil:
		return out
	case found:
		out[i].Value = *value
		return out
	default:
		return slices.Insert(out, i, ConfigEntry{Key: key, Value: *value})
	}
}

func compareEntries(a, b ConfigEntry) int { return cmp.Compare(a.Key, b.Key) }
