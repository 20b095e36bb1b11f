package fsm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// fields are key=value pairs of a script line.
type fields struct {
	tb   reporter
	kind string
	m    map[string]string
}

func argsOf(d *datadriven.TestData) fields {
	f := fields{kind: d.Cmd, m: make(map[string]string)}
	for _, a := range d.CmdArgs {
		f.m[a.Key] = strings.Join(a.Vals, ",")
	}
	return f
}

func fieldsOf(tb reporter, line string) fields {
	words := strings.Fields(line)
	f := fields{tb: tb, kind: words[0], m: make(map[string]string)}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		f.m[key] = value
	}
	return f
}

func (f fields) has(key string) bool { _, ok := f.m[key]; return ok }

func (f fields) text(key, otherwise string) string {
	if v, ok := f.m[key]; ok {
		return v
	}
	return otherwise
}

func (f fields) int64(key string, otherwise int64) int64 {
	v, ok := f.m[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		panic(key + ": " + err.Error())
	}
	return n
}

func (f fields) int32(key string, otherwise int32) int32 {
	return int32(f.int64(key, int64(otherwise)))
}

func (f fields) int(key string, otherwise int) int { return int(f.int64(key, int64(otherwise))) }

func (f fields) uuid(key string) []byte { return uuid(f.int(key, 0)).Bytes() }

func (f fields) optInt32(key string) *int32 {
	if !f.has(key) {
		return nil
	}
	return proto.Int32(f.int32(key, 0))
}

func (f fields) optBool(key string) *bool {
	if !f.has(key) {
		return nil
	}
	return proto.Bool(f.text(key, "") == "true")
}

func (f fields) optText(key string) *string {
	if !f.has(key) {
		return nil
	}
	return proto.String(f.text(key, ""))
}

// ids reads "1,2,3"; the empty string is an empty list.
func (f fields) ids(key string) []int32 {
	var list []int32
	for _, word := range strings.FieldsFunc(f.text(key, ""), func(r rune) bool { return r == ',' }) {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			panic(key + ": " + err.Error())
		}
		list = append(list, int32(n))
	}
	return list
}

func (f fields) optIDs(key string) *metadatav1.BrokerIDs {
	if !f.has(key) {
		return nil
	}
	return &metadatav1.BrokerIDs{Ids: f.ids(key)}
}

func (f fields) uuids(key string) [][]byte {
	var list [][]byte
	for _, id := range f.ids(key) {
		list = append(list, uuid(int(id)).Bytes())
	}
	return list
}

func (f fields) optUUIDs(key string) *metadatav1.DirectoryIDs {
	if !f.has(key) {
		return nil
	}
	return &metadatav1.DirectoryIDs{Uuids: f.uuids(key)}
}

// listeners reads "PLAINTEXT:host:9092,SSL:host:9093".
func (f fields) listeners(key string) []*metadatav1.Listener {
	var list []*metadatav1.Listener
	for _, word := range strings.FieldsFunc(f.text(key, ""), func(r rune) bool { return r == ',' }) {
		parts := strings.Split(word, ":")
		port, err := strconv.ParseUint(parts[2], 10, 32)
		if err != nil {
			panic(err)
		}
		list = append(list, &metadatav1.Listener{Name: parts[0], Host: parts[1], Port: uint32(port)})
	}
	return list
}

// parseRecord reads a record of a script.
func parseRecord(tb reporter, line string) record {
	tb.Helper()
	f := fieldsOf(tb, line)
	switch f.kind {
	case "register", "unregister", "broker":
		return parseBrokerRecord(f)
	case "topic":
		return topicRecord(f.text("name", ""), uuid(f.int("id", 0)))
	case "remove-topic":
		return removeTopicRecord(uuid(f.int("id", 0)))
	case "partition":
		return parsePartition(f)
	case "change":
		return parseChange(f)
	case "config":
		return parseConfig(f)
	case "producer-ids":
		return &metadatav1.Record{Kind: &metadatav1.Record_ProducerIds{ProducerIds: &metadatav1.ProducerIDs{
			BrokerId: f.int32("broker", 0), BrokerEpoch: f.int64("epoch", 0), NextProducerId: f.int64("next", 0),
		}}}
	case "controller":
		return &metadatav1.Record{Kind: &metadatav1.Record_ControllerRegistered{ControllerRegistered: &metadatav1.ControllerRegistered{
			NodeId: f.int32("node", 0), DirectoryId: f.uuid("node"), IncarnationId: f.uuid("incarnation"), Listeners: f.listeners("listeners"),
		}}}
	case "claimed":
		return &metadatav1.Record{Kind: &metadatav1.Record_ControllerClaimed{ControllerClaimed: &metadatav1.ControllerClaimed{
			NodeId: f.int32("node", 0), DirectoryId: f.uuid("node"), IncarnationId: f.uuid("node"), Nonce: f.uuid("node"),
		}}}
	case "lineage-confirmed":
		return &metadatav1.Record{Kind: &metadatav1.Record_LineageConfirmed{LineageConfirmed: &metadatav1.LineageConfirmed{}}}
	case "recovery-elected":
		return parseRecovery(f)
	case "feature":
		return &metadatav1.Record{Kind: &metadatav1.Record_FeatureLevel{FeatureLevel: &metadatav1.FeatureLevel{Name: f.text("name", ""), Level: f.int32("level", 0)}}}
	case "clear-elr":
		return &metadatav1.Record{Kind: &metadatav1.Record_ClearElr{ClearElr: &metadatav1.ClearElr{TopicName: f.text("topic", "")}}}
	case "quota":
		return parseQuota(f)
	case "answered":
		return &metadatav1.Record{Kind: &metadatav1.Record_RequestAnswered{RequestAnswered: &metadatav1.RequestAnswered{
			RequestId: f.uuid("id"), RequestKind: f.text("kind", ""), Answer: []byte(f.text("answer", "")), MetadataOffset: f.int64("offset", 0),
		}}}
	case "lineage-started":
		return &metadatav1.Record{Kind: &metadatav1.Record_LineageStarted{LineageStarted: &metadatav1.LineageStarted{}}}
	default:
		tb.Fatalf("unknown record %q", line)
		return nil
	}
}

// parseQuota reads for example "quota user=alice client-id=(default) key=producer_byte_rate value=1024".
func parseQuota(f fields) record {
	r := &metadatav1.ClientQuota{Key: f.text("key", "")}
	for _, kind := range []string{"user", "client-id", "ip", "group"} {
		if f.has(kind) {
			part := &metadatav1.QuotaEntity{Type: kind}
			if name := f.text(kind, ""); name != "default" {
				part.Name = proto.String(name)
			}
			r.Entity = append(r.Entity, part)
		}
	}
	if f.has("value") {
		v, err := strconv.ParseFloat(f.text("value", ""), 64)
		if err != nil {
			panic(err)
		}
		r.Value = proto.Float64(v)
	}
	return &metadatav1.Record{Kind: &metadatav1.Record_ClientQuota{ClientQuota: r}}
}

// parseRecovery reads for example "recovery-elected topic=10 leader=1 leader-epoch=7 end=40 missing=2,3 late=3:6:0:44":
// broker, last leader epoch, log start and log end.
func parseRecovery(f fields) record {
	r := &metadatav1.RecoveryElected{
		TopicId: f.uuid("topic"), PartitionId: f.int32("n", 0), Leader: f.int32("leader", 0), LeaderEpoch: f.int32("leader-epoch", 0),
		LastLeaderEpoch: f.int32("last-epoch", 0), LogEndOffset: f.int64("end", 0), Missing: f.ids("missing"),
	}
	for _, word := range strings.FieldsFunc(f.text("late", ""), func(r rune) bool { return r == ',' }) {
		l := &metadatav1.LateInventory{}
		if _, err := fmt.Sscanf(word, "%d:%d:%d:%d", &l.BrokerId, &l.LastLeaderEpoch, &l.LogStartOffset, &l.LogEndOffset); err != nil {
			panic(word + ": " + err.Error())
		}
		r.Late = append(r.Late, l)
	}
	return &metadatav1.Record{Kind: &metadatav1.Record_RecoveryElected{RecoveryElected: r}}
}

func parseBrokerRecord(f fields) record {
	switch f.kind {
	case "register":
		return &metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
			BrokerId: f.int32("id", 0), BrokerEpoch: f.int64("epoch", 0), IncarnationId: f.uuid("incarnation"),
			Fenced: f.text("fenced", "true") == "true", InControlledShutdown: f.has("shutdown"), Rack: f.optText("rack"),
			Listeners: f.listeners("listeners"), Directories: f.uuids("directories"),
		}}}
	case "unregister":
		return &metadatav1.Record{Kind: &metadatav1.Record_UnregisterBroker{UnregisterBroker: &metadatav1.UnregisterBroker{
			BrokerId: f.int32("id", 0), BrokerEpoch: f.int64("epoch", 0),
		}}}
	default:
		return &metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
			BrokerId: f.int32("id", 0), BrokerEpoch: f.int64("epoch", 0), Fenced: f.optBool("fenced"),
			InControlledShutdown: f.optBool("shutdown"), Directories: f.optUUIDs("directories"),
		}}}
	}
}

func parsePartition(f fields) record {
	isr := f.ids("isr")
	if !f.has("isr") {
		isr = f.ids("replicas")
	}
	leader := NoLeader
	if len(isr) > 0 {
		leader = isr[0]
	}
	return &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
		TopicId: f.uuid("topic"), PartitionId: f.int32("n", 0), Replicas: f.ids("replicas"), Isr: isr,
		Leader: f.int32("leader", leader), LeaderEpoch: f.int32("leader-epoch", 0), PartitionEpoch: f.int32("partition-epoch", 0),
		AddingReplicas: f.ids("adding"), RemovingReplicas: f.ids("removing"), EligibleLeaderReplicas: f.ids("elr"),
		Recovering: f.has("recovering"), AwaitingInventory: f.has("awaiting"), Directories: f.uuids("directories"),
	}}}
}

func parseChange(f fields) record {
	return changeRecord(&metadatav1.PartitionChange{
		TopicId: f.uuid("topic"), PartitionId: f.int32("n", 0), Isr: f.optIDs("isr"), Leader: f.optInt32("leader"),
		Replicas: f.optIDs("replicas"), AddingReplicas: f.optIDs("adding"), RemovingReplicas: f.optIDs("removing"),
		EligibleLeaderReplicas: f.optIDs("elr"), LastKnownElr: f.optIDs("last-known"), Recovering: f.optBool("recovering"),
		AwaitingInventory: f.optBool("awaiting"), LeaderEpoch: f.optInt32("leader-epoch"), Directories: f.optUUIDs("directories"),
	})
}

func parseConfig(f fields) record {
	r := BrokerResource(f.text("broker", ""))
	if f.has("topic") {
		r = TopicResource(f.text("topic", ""))
	}
	rec := configRecord(r, f.text("key", ""), f.optText("value"))
	if f.has("type") {
		rec.GetConfig().ResourceType = metadatav1.ConfigResourceType(f.int32("type", 0))
	}
	return rec
}
