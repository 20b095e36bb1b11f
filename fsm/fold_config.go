package fsm

import (
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// config sets or removes one key. A topic's config needs the topic: RemoveTopic takes the configs along, and none
// may be left behind for the next topic of that name.
func (f *fold) config(r *metadatav1.Config) error {
	resource := ConfigResource{Type: r.GetResourceType(), Name: r.GetResourceName()}
	object := "config of " + resource.String()
	if err := resource.check(); err != nil {
		return violation(0, object, "%v", err)
	}
	if r.GetKey() == "" || len(r.GetKey()) > maxStringBytes || len(r.GetValue()) > maxStringBytes {
		return violation(0, object, "key has %d bytes and value %d, want a key and at most %d", len(r.GetKey()), len(r.GetValue()), maxStringBytes)
	}
	if resource.Type == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC {
		if _, ok := f.img.names.Get(resource.Name); !ok {
			return violation(0, object, "the topic does not exist")
		}
	}
	old, _ := f.img.configs.Get(resource)
	if i, found := findConfig(old, r.GetKey()); found {
		f.remove(configSum(resource, old[i]))
	}
	now := withConfig(old, r.GetKey(), r.Value)
	if len(now) > maxConfigKeys {
		return violation(20, object, "%d keys, at most %d", len(now), maxConfigKeys)
	}
	if r.Value != nil {
		f.add(configSum(resource, ConfigEntry{Key: r.GetKey(), Value: r.GetValue()}))
	}
	f.setConfigs(resource, now)
	return nil
}

func (f *fold) setConfigs(resource ConfigResource, entries []ConfigEntry) {
	put(&f.configs, resource, struct{}{})
	if len(entries) == 0 {
		f.img.configs = f.img.configs.Delete(resource)
		return
	}
	f.img.configs = f.img.configs.Set(resource, entries)
}

// producerIds gives out producer ids: the next one only grows, or two producers would share an id.
func (f *fold) producerIds(r *metadatav1.ProducerIDs) error {
	if _, err := f.registered(r.GetBrokerId(), r.GetBrokerEpoch()); err != nil {
		return err
	}
	if r.GetNextProducerId() <= f.img.nextProducerID {
		return violation(6, "producer ids", "next producer id %d after %d", r.GetNextProducerId(), f.img.nextProducerID)
	}
	f.img.nextProducerID = r.GetNextProducerId()
	f.producerIDs = true
	return nil
}
