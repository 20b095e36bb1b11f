package fsm

import (
	"cmp"
	"errors"
	"fmt"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// recordOrder refuses records that are out of the fixed order of a snapshot or doubled: there is one stream for
// one image. It holds the position of the last record.
type recordOrder struct {
	at position
}

// position orders the records: by rank; controllers and brokers by id; topics by name, each followed by its
// partitions by number; configs by resource and key; recovery elections by topic id and partition; features by name; quotas by entity and key; answers by metadata offset.
type position struct {
	rank     int
	id       int64
	resource ConfigResource
	key      string
	quota    quotaID
}

func comparePositions(a, b position) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), compareResources(a.resource, b.resource), cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id), compareQuotaIDs(a.quota, b.quota))
}

func (o *recordOrder) next(r *metadatav1.Record) error {
	p, err := o.position(r)
	if err != nil {
		return err
	}
	if comparePositions(o.at, p) >= 0 {
		return fmt.Errorf("kind %d is out of order or doubled", recordKind(r))
	}
	o.at = p
	return nil
}

// nextPartition is next for a partition.
func (o *recordOrder) nextPartition(id int32) error {
	if o.at.rank != topicRank {
		return errors.New("a partition before its topic")
	}
	if int64(id) <= o.at.id {
		return fmt.Errorf("kind %d is out of order or doubled", partitionKind)
	}
	o.at.id = int64(id)
	return nil
}

// topicRank is the rank of topics and partitions.
const topicRank = 3

// position of a record; the rank 0 is before all of them.
func (o *recordOrder) position(r *metadatav1.Record) (position, error) {
	switch k := r.GetKind().(type) {
	case *metadatav1.Record_ControllerRegistered:
		return position{rank: 1, id: int64(k.ControllerRegistered.GetNodeId())}, nil
	case *metadatav1.Record_RegisterBroker:
		return position{rank: 2, id: int64(k.RegisterBroker.GetBrokerId())}, nil
	case *metadatav1.Record_Topic:
		return position{rank: topicRank, key: k.Topic.GetName(), id: -1}, nil
	case *metadatav1.Record_Partition:
		// A partition belongs to the topic before it; that its id is that topic's is the loader's to verify.
		if o.at.rank != topicRank {
			return position{}, errors.New("a partition before its topic")
		}
		return position{rank: topicRank, key: o.at.key, id: int64(k.Partition.GetPartitionId())}, nil
	case *metadatav1.Record_Config:
		c := k.Config
		return position{rank: 4, resource: ConfigResource{Type: c.GetResourceType(), Name: c.GetResourceName()}, key: c.GetKey()}, nil
	case *metadatav1.Record_ProducerIds:
		return position{rank: 5}, nil
	case *metadatav1.Record_RecoveryElected:
		e := k.RecoveryElected
		return position{rank: 6, key: string(e.GetTopicId()), id: int64(e.GetPartitionId())}, nil
	case *metadatav1.Record_FeatureLevel:
		return position{rank: 7, key: k.FeatureLevel.GetName()}, nil
	case *metadatav1.Record_ClientQuota:
		entity, err := QuotaEntityFromProto(k.ClientQuota.GetEntity())
		return position{rank: 8, quota: quotaID{entity, k.ClientQuota.GetKey()}}, err
	case *metadatav1.Record_RequestAnswered:
		return position{rank: 9, id: k.RequestAnswered.GetMetadataOffset()}, nil
	default:
		return position{}, fmt.Errorf("a record of kind %d has no place in a snapshot", recordKind(r))
	}
}
