package topicconfig

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/skiffmq/skiff/fsm"
)

// NodeID is the key of Static under which a process says which broker it is: a configuration of that broker alone is in
// force there and nowhere else.
const NodeID = "node.id"

// Static is the static configuration of a process, by the names that Kafka gives the keys on a broker. Nil is empty.
type Static map[string]string

// On returns the static configuration of the broker node.
func (s Static) On(node int32) Static {
	on := maps.Clone(s)
	if on == nil {
		on = Static{}
	}
	on[NodeID] = strconv.Itoa(int(node))
	return on
}

// Validate tells whether every value is one that its key takes. Keys that are no topic configuration are skipped.
func (s Static) Validate() error {
	for _, k := range schema {
		if value, ok := s[k.ServerName]; ok {
			if err := k.Validate(value); err != nil {
				return fmt.Errorf("%s: %w", k.ServerName, err)
			}
		}
	}
	return nil
}

// Source tells where a value in force comes from.
type Source int8

// The sources, numbered as Kafka's DescribeConfigsResponse.ConfigSource is on the wire.
const (
	SourceTopic          Source = 1
	SourceBroker         Source = 2
	SourceClusterDefault Source = 3
	SourceStatic         Source = 4
	SourceDefault        Source = 5
)

// Value is the value in force for one key of a topic.
type Value struct {
	Key    Key
	Value  string
	Source Source
}

// Effective finds the value in force for the key name of a topic. A stored value that the schema no longer takes is
// passed over. The second result is false if there is no such key.
func Effective(img *fsm.Image, static Static, topic, name string) (Value, bool) {
	key, ok := Lookup(name)
	if !ok {
		return Value{}, false
	}
	return key.effective(img, static, topic), true
}

// All lists the values in force for a topic, by key.
func All(img *fsm.Image, static Static, topic string) []Value {
	values := make([]Value, 0, len(schema))
	for _, k := range schema {
		values = append(values, k.effective(img, static, topic))
	}
	return values
}

func (k Key) effective(img *fsm.Image, static Static, topic string) Value {
	return k.chain(img, static, topic)[0]
}

// Chain lists where a key of a topic has a value, from the one in force on down to the default. It is never empty.
func Chain(img *fsm.Image, static Static, topic string, key Key) []Value {
	return key.chain(img, static, topic)
}

func (k Key) chain(img *fsm.Image, static Static, topic string) []Value {
	var values []Value
	if v, ok := img.ConfigValue(fsm.TopicResource(topic), k.Name); ok && k.Validate(v) == nil {
		values = append(values, Value{Key: k, Value: v, Source: SourceTopic})
	}
	return append(values, k.serverChain(img, static)...)
}

// serverChain is the part of the chain that does not depend on the topic.
func (k Key) serverChain(img *fsm.Image, static Static) []Value {
	var values []Value
	add := func(v string, ok bool, source Source) {
		if ok && k.Validate(v) == nil {
			values = append(values, Value{Key: k, Value: v, Source: source})
		}
	}
	if node := static[NodeID]; node != "" {
		v, ok := img.ConfigValue(fsm.BrokerResource(node), k.ServerName)
		add(v, ok, SourceBroker)
	}
	v, ok := img.ConfigValue(fsm.BrokerResource(""), k.ServerName)
	add(v, ok, SourceClusterDefault)
	v, ok = static[k.ServerName]
	add(v, ok, SourceStatic)
	return append(values, Value{Key: k, Value: k.Default, Source: SourceDefault})
}

// Settings are the values in force for a topic, ready for use.
type Settings struct {
	// MaxMessageBytes is the largest record batch that is accepted.
	MaxMessageBytes int32
	// LogAppendTime is set when records get the leader's time instead of keeping the producer's.
	LogAppendTime bool
	// MinInSyncReplicas is how many members the ISR must have for a write with acks=all.
	MinInSyncReplicas int32
	// RetentionBytes is how much of a partition is kept, -1 for no bound.
	RetentionBytes int64
	// Retention is how long records are kept, negative for ever.
	Retention time.Duration
	// SegmentBytes is the size at which a segment is closed.
	SegmentBytes int32
	// UncleanLeaderElection tells whether a replica outside the ISR may become leader by itself.
	UncleanLeaderElection bool
}

// Of returns the settings in force for a topic. It is made of a handful of look-ups; a hot path keeps the result until
// a delta names the topic's or the cluster's configuration.
func Of(img *fsm.Image, static Static, topic string) Settings {
	number := func(name string) int64 { return getInt(img, static, topic, name) }
	timestamps, _ := Effective(img, static, topic, MessageTimestampType)
	return Settings{
		MaxMessageBytes:       int32(number(MaxMessageBytes)), //nolint:gosec // the schema bounds it
		LogAppendTime:         timestamps.Value == "LogAppendTime",
		MinInSyncReplicas:     int32(number(MinInSyncReplicas)), //nolint:gosec // the schema bounds it
		RetentionBytes:        number(RetentionBytes),
		Retention:             milliseconds(number(RetentionMs)),
		SegmentBytes:          int32(number(SegmentBytes)), //nolint:gosec // the schema bounds it
		UncleanLeaderElection: UncleanLeaderElection(img, static, topic),
	}
}

// UncleanLeaderElection is the value in force of unclean.leader.election.enable.
func UncleanLeaderElection(img *fsm.Image, static Static, topic string) bool {
	v, _ := Effective(img, static, topic, UncleanLeaderElectionEnable)
	on, err := parseBool(v.Value)
	return err == nil && on
}

// getInt reads a number. Effective has validated it or taken the schema's default, so it is one.
func getInt(img *fsm.Image, static Static, topic, name string) int64 {
	v, _ := Effective(img, static, topic, name)
	n, err := strconv.ParseInt(strings.TrimSpace(v.Value), 10, 64)
	if err != nil {
		n, _ = strconv.ParseInt(v.Key.Default, 10, 64)
	}
	return n
}

// milliseconds makes a duration of ms. What does not fit one is more than 292 years, which is for ever.
func milliseconds(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if ms < 0 || ms > most {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
