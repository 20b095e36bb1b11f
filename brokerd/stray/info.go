package stray

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

const (
	// infoFile is in the replica's directory. It is written before the rename, and counts only under the name that it says.
	infoFile  = "stray"
	infoMagic = "SBSY"
	// infoFormat is the version that is written; a file of a newer one is not read.
	infoFormat = 1
	// infoBytesMax bounds the file: a topic has at most a few dozen configs.
	infoBytesMax = 1 << 20
)

// Topic is what was known of the topic of a stray. The zero value says that nothing was.
type Topic struct {
	// Name that the topic had.
	Name string
	// Partitions that the topic had.
	Partitions int32
	// ReplicationFactor that the partition had.
	ReplicationFactor int32
	// Configs of the topic, by key.
	Configs []fsm.ConfigEntry
}

// TopicOf describes a topic as an image has it; the zero Topic if it does not know it, or there is no image.
func TopicOf(img *fsm.Image, id fsm.PartitionID) Topic {
	if img == nil {
		return Topic{}
	}
	t, ok := img.Topic(id.Topic)
	if !ok {
		return Topic{}
	}
	out := Topic{Name: t.Name(), Partitions: t.NumPartitions(), Configs: img.Configs(fsm.TopicResource(t.Name()))}
	if p, ok := t.Partition(id.Partition); ok {
		out.ReplicationFactor = int32(len(p.Replicas))
	}
	return out
}

// infoJSON is the payload of the file.
type infoJSON struct {
	TopicID           string       `json:"topic_id"`
	Partition         int32        `json:"partition"`
	Lineage           uint64       `json:"lineage"`
	LineageUUID       string       `json:"lineage_uuid"`
	Offset            int64        `json:"metadata_offset"`
	SinceMs           int64        `json:"since_ms"`
	Topic             string       `json:"topic_name,omitempty"`
	Partitions        int32        `json:"num_partitions,omitempty"`
	ReplicationFactor int32        `json:"replication_factor,omitempty"`
	Configs           []configJSON `json:"configs,omitempty"`
}

type configJSON struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// info is what the file holds.
type info struct {
	name    Name
	lineage fsm.UUID
	since   time.Time
	topic   Topic
}

func (i info) encode() ([]byte, error) {
	j := infoJSON{
		TopicID: i.name.ID.Topic.String(), Partition: i.name.ID.Partition, Lineage: i.name.Lineage, LineageUUID: i.lineage.String(),
		Offset: i.name.Offset, SinceMs: i.since.UnixMilli(),
		Topic: i.topic.Name, Partitions: i.topic.Partitions, ReplicationFactor: i.topic.ReplicationFactor,
	}
	for _, c := range i.topic.Configs {
		j.Configs = append(j.Configs, configJSON{c.Key, c.Value})
	}
	payload, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode what is known of a stray: %w", err)
	}
	return disk.Seal(infoMagic, infoFormat, append(payload, '\n'))
}

// decodeInfo reads what encode wrote. What it returns encodes to the same again, but for the layout of the JSON.
func decodeInfo(file []byte) (info, error) {
	version, payload, err := disk.Unseal(infoMagic, file)
	if err != nil {
		return info{}, err
	}
	if version != infoFormat {
		return info{}, fmt.Errorf("format %d, this version knows %d", version, infoFormat)
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	var j infoJSON
	if err := d.Decode(&j); err != nil {
		return info{}, fmt.Errorf("decode: %w", err)
	}
	return j.info()
}

func (j infoJSON) info() (info, error) {
	topic, err := fsm.ParseUUID(j.TopicID)
	if err != nil {
		return info{}, fmt.Errorf("topic id: %w", err)
	}
	lineage, err := fsm.ParseUUID(j.LineageUUID)
	if err != nil {
		return info{}, fmt.Errorf("lineage uuid: %w", err)
	}
	i := info{
		name: Name{ID: fsm.PartitionID{Topic: topic, Partition: j.Partition}, Lineage: j.Lineage, Offset: j.Offset}, lineage: lineage,
		since: time.UnixMilli(j.SinceMs), topic: Topic{Name: j.Topic, Partitions: j.Partitions, ReplicationFactor: j.ReplicationFactor},
	}
	for _, c := range j.Configs {
		i.topic.Configs = append(i.topic.Configs, fsm.ConfigEntry{Key: c.Key, Value: c.Value})
	}
	return i, i.check()
}

// check refuses what no broker writes. Whoever brings the topic back relies on it.
func (i info) check() error {
	if i.name.ID.Partition < 0 || i.topic.Partitions < 0 || i.topic.ReplicationFactor < 0 {
		return fmt.Errorf("partition %d of %d with %d replicas", i.name.ID.Partition, i.topic.Partitions, i.topic.ReplicationFactor)
	}
	if i.topic.Name == "" {
		return nil
	}
	if err := fsm.CheckTopicName(i.topic.Name); err != nil {
		return fmt.Errorf("topic name: %w", err)
	}
	if !slices.IsSortedFunc(i.topic.Configs, func(a, b fsm.ConfigEntry) int { return strings.Compare(a.Key, b.Key) }) {
		return fmt.Errorf("configs of %s are not sorted", i.topic.Name)
	}
	return nil
}
