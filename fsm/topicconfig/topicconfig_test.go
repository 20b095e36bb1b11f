package topicconfig

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// image has a topic foo with the given configs of its own, and the given defaults of the cluster.
func image(t *testing.T, topic, cluster map[string]string) *fsm.Image {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: &metadatav1.LineageID{Number: 1, Uuid: fsm.UUID{2}.Bytes()}, NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	id := fsm.UUID{3}
	records := []*metadatav1.Record{
		{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: "foo", TopicId: id.Bytes()}}},
		{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{TopicId: id.Bytes(), Replicas: []int32{1}, Isr: []int32{1}, Leader: -1}}},
	}
	add := func(kind metadatav1.ConfigResourceType, name string, configs map[string]string) {
		for key, value := range configs {
			records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Config{
				Config: &metadatav1.Config{ResourceType: kind, ResourceName: name, Key: key, Value: proto.String(value)},
			}})
		}
	}
	add(metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, "foo", topic)
	add(metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, "", cluster)
	img, _, err = fsm.FoldBatches(img, []*metadatav1.Batch{{RequestId: fsm.UUID{4}.Bytes(), Records: records}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestTheNearestLevelWins: topic, then cluster, then static, then the schema; below the topic by the broker's name.
func TestTheNearestLevelWins(t *testing.T) {
	own := map[string]string{RetentionMs: "1"}
	cluster := map[string]string{"log.retention.ms": "2"}
	static := Static{"log.retention.ms": "3"}
	for _, row := range []struct {
		name           string
		topic, cluster map[string]string
		static         Static
		want           string
		source         Source
	}{
		{"topic", own, cluster, static, "1", SourceTopic},
		{"cluster", nil, cluster, static, "2", SourceClusterDefault},
		{"static", nil, nil, static, "3", SourceStatic},
		{"default", nil, nil, nil, "604800000", SourceDefault},
		{"the topic's name does not count on a broker", nil, map[string]string{RetentionMs: "9"}, Static{RetentionMs: "9"}, "604800000", SourceDefault},
		{"what the schema does not take is passed over", map[string]string{RetentionMs: "soon"}, map[string]string{"log.retention.ms": "-7"}, static, "3", SourceStatic},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, ok := Effective(image(t, row.topic, row.cluster), row.static, "foo", RetentionMs)
			if !ok || v.Value != row.want || v.Source != row.source {
				t.Errorf("%q from %d, want %q from %d", v.Value, v.Source, row.want, row.source)
			}
		})
	}
	if _, ok := Effective(image(t, nil, nil), nil, "foo", "no.such.key"); ok {
		t.Error("a key that does not exist has a value")
	}
}

// TestEveryKeyIsLegalAndInForce: defaults are legal, keys are sorted and unique, and All lists each.
func TestEveryKeyIsLegalAndInForce(t *testing.T) {
	keys := Keys()
	if !slices.IsSortedFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the schema is not sorted")
	}
	all := All(image(t, nil, nil), nil, "foo")
	if len(all) != len(keys) {
		t.Fatalf("%d values for %d keys", len(all), len(keys))
	}
	for i, k := range keys {
		if err := k.Validate(k.Default); err != nil {
			t.Errorf("the default is not legal: %v", err)
		}
		if k.Doc == "" || k.ServerName == "" {
			t.Errorf("%s has no doc or no name on a broker", k.Name)
		}
		if all[i].Key.Name != k.Name || all[i].Value != k.Default || all[i].Source != SourceDefault {
			t.Errorf("%s is in force as %+v", k.Name, all[i])
		}
		if slices.Contains(kafkaOnly, k.Name) {
			t.Errorf("%s is both supported and not", k.Name)
		}
	}
}

// TestValidateSaysWhatIsAccepted names the accepted values, or the nearest key.
func TestValidateSaysWhatIsAccepted(t *testing.T) {
	for _, row := range []struct{ key, value, want string }{
		{RetentionMs, "-1", ""},
		{RetentionMs, " 5 ", ""},
		{RetentionMs, "-2", "from -1"},
		{RetentionMs, "9223372036854775807", ""},
		{RetentionMs, "9223372036854775808", "whole number"},
		{RetentionMs, "", "whole number"},
		{RetentionMs, "1.5", "whole number"},
		{SegmentBytes, "1048575", "from 1048576 to 2147483647"},
		{SegmentBytes, "2147483648", "from 1048576 to 2147483647"},
		{MinInSyncReplicas, "0", "from 1"},
		{MaxMessageBytes, "0", ""},
		{UncleanLeaderElectionEnable, "True", ""},
		{UncleanLeaderElectionEnable, "1", "true or false"},
		{CleanupPolicy, "delete", ""},
		{CleanupPolicy, "delete, delete", ""},
		{CleanupPolicy, "delete,compact", "cleanup.policy=compact is not supported"},
		{CleanupPolicy, "", "must be one of delete"},
		{CompressionType, "lz4", "set the codec on the producer"},
		{MessageTimestampType, "LogAppendTime", ""},
		{MessageTimestampType, "logappendtime", "CreateTime, LogAppendTime"},
		{CompressionType, strings.Repeat("x", 40_000), "at most 32767"},
		{"retention.m", "1", "did you mean retention.ms?"},
		{"min.insync.replica", "1", "did you mean min.insync.replicas?"},
		{"segment.ms", "1", "does not support"},
		{strings.Repeat("retention.ms", 100_000), "1", "is not a topic configuration"},
		{"", "1", "is not a topic configuration"},
		{"qwertyuiop", "1", `"qwertyuiop" is not a topic configuration`},
	} {
		err := Validate(row.key, row.value)
		switch {
		case err == nil && row.want != "":
			t.Errorf("%s=%.20q is accepted, want %q", row.key, row.value, row.want)
		case err != nil && (row.want == "" || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%.20s=%.20q: %v, want %q", row.key, row.value, err, row.want)
		case err != nil && len(err.Error()) > 300:
			t.Errorf("%.20s=%.20q: the error has %d bytes", row.key, row.value, len(err.Error()))
		}
	}
}

// TestSettingsAreTheValuesInForce, ready for use.
func TestSettingsAreTheValuesInForce(t *testing.T) {
	img := image(t, map[string]string{
		RetentionMs: "60000", UncleanLeaderElectionEnable: "TRUE", MessageTimestampType: "LogAppendTime",
	}, map[string]string{MinInSyncReplicas: "2"})
	got := Of(img, Static{"log.segment.bytes": "2097152", "message.max.bytes": "17"}, "foo")
	want := Settings{
		MaxMessageBytes: 17, LogAppendTime: true, MinInSyncReplicas: 2, RetentionBytes: -1, Retention: time.Minute,
		SegmentBytes: 2097152, UncleanLeaderElection: true,
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = Of(image(t, nil, nil), nil, "foo")
	want = Settings{
		MaxMessageBytes: 1048588, MinInSyncReplicas: 1, RetentionBytes: -1, Retention: 7 * 24 * time.Hour, SegmentBytes: 1 << 30,
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestARetentionBeyondDurationIsForEver: Kafka's milliseconds reach further than nanoseconds do.
func TestARetentionBeyondDurationIsForEver(t *testing.T) {
	for ms, want := range map[int64]time.Duration{
		-1: -1, 0: 0, 1: time.Millisecond, math.MaxInt64: -1, math.MaxInt64 / 1_000_000: math.MaxInt64 / 1_000_000 * time.Millisecond,
	} {
		if got := milliseconds(ms); got != want {
			t.Errorf("%d ms is %d, want %d", ms, got, want)
		}
	}
}

// TestStaticValuesAreValidated by the name that they have on a broker.
func TestStaticValuesAreValidated(t *testing.T) {
	if err := (Static{"log.retention.ms": "5", "node.id": "x"}).Validate(); err != nil {
		t.Errorf("refused: %v", err)
	}
	err := Static{"log.segment.bytes": "5"}.Validate()
	if err == nil || !strings.Contains(err.Error(), "log.segment.bytes") {
		t.Errorf("got %v, want an error that names log.segment.bytes", err)
	}
}

// FuzzValidate: what is accepted is what the look-up gives back, and never the default instead.
func FuzzValidate(f *testing.F) {
	for _, seed := range [][2]string{{RetentionMs, "-1"}, {UncleanLeaderElectionEnable, "tRuE"}, {CleanupPolicy, "delete,,"}, {"x", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if Validate(name, value) != nil {
			return
		}
		img := image(t, map[string]string{name: value}, nil)
		if v, ok := Effective(img, nil, "foo", name); !ok || v.Value != value || v.Source != SourceTopic {
			t.Errorf("%s=%q is accepted and in force as %+v", name, value, v)
		}
		Of(img, nil, "foo")
	})
}

// TestABrokersOwnValueIsInForceThereOnly: topic, then the broker's own, then the cluster's default, then the process's
// static value, then Kafka's default.
func TestABrokersOwnValueIsInForceThereOnly(t *testing.T) {
	img := image(t, nil, map[string]string{"message.max.bytes": "2000"})
	own := &metadatav1.Config{ResourceType: fsm.BrokerResource("1").Type, ResourceName: "1", Key: "message.max.bytes", Value: proto.String("1000")}
	img, _, err := fsm.FoldBatches(img, []*metadatav1.Batch{{RequestId: fsm.UUID{4}.Bytes(), Records: []*metadatav1.Record{{Kind: &metadatav1.Record_Config{Config: own}}}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	static := Static{"message.max.bytes": "3000"}
	for node, want := range map[int32]Value{1: {Value: "1000", Source: SourceBroker}, 2: {Value: "2000", Source: SourceClusterDefault}} {
		got, _ := Effective(img, static.On(node), "t", MaxMessageBytes)
		if got.Value != want.Value || got.Source != want.Source {
			t.Errorf("broker %d: %s from %d", node, got.Value, got.Source)
		}
	}
	for _, list := range Server(img, static.On(1)) {
		if list[0].Key.Name != "message.max.bytes" {
			continue
		}
		var got []string
		for _, v := range list {
			got = append(got, v.Value)
		}
		if want := []string{"1000", "2000", "3000", "1048588"}; !slices.Equal(got, want) {
			t.Errorf("chain %v, want %v", got, want)
		}
	}
}

// TestServerKeysHaveTheirOwnNames: a topic's key on a broker is refused with the name that brokers give it.
func TestServerKeysHaveTheirOwnNames(t *testing.T) {
	for key, want := range map[string]string{
		"retention.ms":     "brokers call it log.retention.ms",
		"log.retention.mz": "did you mean log.retention.ms",
		"segment.ms":       "does not support",
		"whatever":         "not a configuration that brokers change",
	} {
		if err := ValidateServer(key, "1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
	if err := ValidateServer("log.retention.ms", "-2"); err == nil || !strings.Contains(err.Error(), "log.retention.ms") {
		t.Error(err)
	}
}
