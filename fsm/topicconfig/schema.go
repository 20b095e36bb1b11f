package topicconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The keys that take effect.
const (
	CleanupPolicy               = "cleanup.policy"
	CompressionType             = "compression.type"
	MaxMessageBytes             = "max.message.bytes"
	MessageTimestampType        = "message.timestamp.type"
	MinInSyncReplicas           = "min.insync.replicas"
	RetentionBytes              = "retention.bytes"
	RetentionMs                 = "retention.ms"
	SegmentBytes                = "segment.bytes"
	UncleanLeaderElectionEnable = "unclean.leader.election.enable"
)

// maxValueLength is the longest value that Kafka stores for a key.
const maxValueLength = 32767

// Type is the type of a key's values, as Kafka numbers it in DescribeConfigs.
type Type int8

// The types, numbered as Kafka's ConfigDef.Type is on the wire.
const (
	TypeBoolean Type = 1
	TypeString  Type = 2
	TypeInt     Type = 3
	TypeLong    Type = 5
	TypeList    Type = 7
)

// Key describes one key.
type Key struct {
	// Name is the key on a topic.
	Name string
	// ServerName is the key of the same meaning in a broker's configuration and in the cluster's default.
	ServerName string
	// Type of the values.
	Type Type
	// Default is in force when nobody has set anything.
	Default string
	// Doc is a sentence for people.
	Doc string

	min, max int64    // of numbers
	values   []string // of words, all that are accepted
	// refused holds words that Kafka accepts and this version does not, with the reason.
	refused map[string]string
}

var schema = []Key{
	{
		Name: CleanupPolicy, ServerName: "log.cleanup.policy", Type: TypeList, Default: "delete",
		Doc:     "What is done with old segments: delete.",
		values:  []string{"delete"},
		refused: map[string]string{"compact": "logs are not compacted in this version, and a topic that asks for it would grow for ever"},
	},
	{
		Name: CompressionType, ServerName: "compression.type", Type: TypeString, Default: "producer",
		Doc:    "Record batches are stored as the producer compressed them.",
		values: []string{"producer"},
		refused: map[string]string{
			"uncompressed": notRecompressed, "gzip": notRecompressed, "snappy": notRecompressed, "lz4": notRecompressed, "zstd": notRecompressed,
		},
	},
	{
		Name: MaxMessageBytes, ServerName: "message.max.bytes", Type: TypeInt, Default: "1048588",
		Doc: "The largest record batch that is accepted, in bytes.",
		min: 0, max: math.MaxInt32,
	},
	{
		Name: MessageTimestampType, ServerName: "log.message.timestamp.type", Type: TypeString, Default: "CreateTime",
		Doc:    "Whether records keep the producer's time (CreateTime) or get the leader's (LogAppendTime).",
		values: []string{"CreateTime", "LogAppendTime"},
	},
	{
		Name: MinInSyncReplicas, ServerName: MinInSyncReplicas, Type: TypeInt, Default: "1",
		Doc: "How many members the ISR must have for a write with acks=all.",
		min: 1, max: math.MaxInt32,
	},
	{
		Name: RetentionBytes, ServerName: "log.retention.bytes", Type: TypeLong, Default: "-1",
		Doc: "How many bytes of a partition are kept before old segments are deleted; -1 for no bound.",
		min: -1, max: math.MaxInt64,
	},
	{
		Name: RetentionMs, ServerName: "log.retention.ms", Type: TypeLong, Default: "604800000",
		Doc: "How long records are kept before their segment is deleted, in milliseconds; -1 for ever.",
		min: -1, max: math.MaxInt64,
	},
	{
		Name: SegmentBytes, ServerName: "log.segment.bytes", Type: TypeInt, Default: "1073741824",
		Doc: "The size at which a segment is closed and a new one begun, in bytes.",
		min: 1 << 20, max: math.MaxInt32,
	},
	{
		Name: UncleanLeaderElectionEnable, ServerName: UncleanLeaderElectionEnable, Type: TypeBoolean, Default: "false",
		Doc: "Whether a replica outside the ISR may become leader when no ISR member is up, at the cost of records.",
	},
}

const notRecompressed = "brokers store what the producer sent and do not compress again; set the codec on the producer"

// kafkaOnly are the keys that Kafka has for topics and this version does not.
var kafkaOnly = []string{
	"delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
	"follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
	"local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "message.downconversion.enable",
	"message.format.version", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
	"message.timestamp.difference.max.ms", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "preallocate",
	"remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
	"segment.index.bytes", "segment.jitter.ms", "segment.ms", "compression.gzip.level", "compression.lz4.level",
	"compression.zstd.level",
}

// Keys lists the schema, by name.
func Keys() []Key { return slices.Clone(schema) }

// Lookup finds a key by its name on a topic.
func Lookup(name string) (Key, bool) {
	for _, k := range schema {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

// Validate tells whether a topic may be given value for the key name. The error says what would be accepted; for an
// unknown key it names the nearest known one.
func Validate(name, value string) error {
	key, ok := Lookup(name)
	if !ok {
		return unknownKey(name)
	}
	return key.Validate(value)
}

func unknownKey(name string) error {
	if slices.Contains(kafkaOnly, name) {
		return fmt.Errorf("%s is a configuration of Kafka that this version does not support; leave it out", name)
	}
	if near := nearest(name); near != "" {
		return fmt.Errorf("%.60q is not a topic configuration; did you mean %s?", name, near)
	}
	return fmt.Errorf("%.60q is not a topic configuration", name)
}

// Validate tells whether value is one that the key takes.
func (k Key) Validate(value string) error {
	if len(value) > maxValueLength {
		return fmt.Errorf("%s: the value has %d bytes, at most %d are stored", k.Name, len(value), maxValueLength)
	}
	switch k.Type {
	case TypeBoolean:
		if _, err := parseBool(value); err != nil {
			return fmt.Errorf("%s=%.60q: must be true or false", k.Name, value)
		}
	case TypeInt, TypeLong:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < k.min || n > k.max {
			return fmt.Errorf("%s=%.60q: must be a whole number from %d to %d", k.Name, value, k.min, k.max)
		}
	case TypeString:
		return k.validateWord(value)
	case TypeList:
		for word := range strings.SplitSeq(value, ",") {
			if err := k.validateWord(strings.TrimSpace(word)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k Key) validateWord(word string) error {
	if slices.Contains(k.values, word) {
		return nil
	}
	if why, ok := k.refused[word]; ok {
		return fmt.Errorf("%s=%s is not supported: %s", k.Name, word, why)
	}
	return fmt.Errorf("%s=%.60q: must be one of %s", k.Name, word, strings.Join(k.values, ", "))
}

// parseBool reads a boolean as Kafka does: true or false in any case, and nothing else.
func parseBool(value string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", value)
}
