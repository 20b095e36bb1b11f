package controller

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// rehearsed is a decision that was rehearsed first. Its dice are the story's own, so that a story places as it always did.
func rehearsed[Req, Resp proto.Message](w *world, decide func(*fsm.Image, *Env, Req) Decision[Resp], req Req) Decision[Resp] {
	mutate(w, decide, req)
	return decide(w.img, w.env, req)
}

// mutate rehearses a request before it makes it, and holds the one against the other: the rehearsal changes nothing and
// shows the records that are then written.
func mutate[Req, Resp proto.Message](w *world, decide func(*fsm.Image, *Env, Req) Decision[Resp], req Req) Decision[Resp] {
	trial := proto.Clone(req)
	trial.ProtoReflect().Set(trial.ProtoReflect().Descriptor().Fields().ByName("validate_only"), validateOnly)
	before := w.img.Digest()
	rehearsed := Rehearsable(decide)(w.img, w.env, trial.(Req))
	d := Rehearsable(decide)(w.img, w.env, req)
	if proto.Equal(trial, req) {
		return d // the story itself asks for a rehearsal
	}
	if len(rehearsed.Batches) > 0 || rehearsed.Remember != nil || w.img.Digest() != before {
		w.t.Errorf("a rehearsal changes something")
	}
	if (d.Refused == nil) != (rehearsed.Refused == nil) {
		w.t.Errorf("refused %v, in the rehearsal %v", d.Refused, rehearsed.Refused)
	}
	if d.Refused != nil {
		return d
	}
	shown := rehearsalOf(rehearsed.Reply)
	var written []*metadatav1.Record
	for _, b := range d.Batches {
		written = append(written, b.GetRecords()...)
	}
	if len(written) != len(shown.GetRecords()) {
		w.t.Fatalf("%d records, %d in the rehearsal", len(written), len(shown.GetRecords()))
	}
	for i, r := range written {
		if !proto.Equal(r, shown.GetRecords()[i]) {
			w.t.Errorf("record %d is %v, in the rehearsal %v", i, r, shown.GetRecords()[i])
		}
	}
	return d
}

var validateOnly = protoreflect.ValueOfBool(true)

// rehearsalOf is the rehearsal in a reply.
func rehearsalOf(reply proto.Message) *controllerv1.Rehearsal {
	m := reply.ProtoReflect()
	r, _ := m.Get(m.Descriptor().Fields().ByName("rehearsal")).Message().Interface().(*controllerv1.Rehearsal)
	return r
}

// cmdAlterConfig changes configs: "alter-config topic:foo set:retention.ms=5 delete:x append:cleanup.policy=delete
// null:y", on "cluster" or "broker:1". With "replace" every other key goes away. More resources stand a line each.
func (w *world) cmdAlterConfig(d *datadriven.TestData) string {
	req := &controllerv1.AlterConfigsRequest{}
	if len(d.CmdArgs) > 0 {
		req.Resources = append(req.Resources, w.alteredResource(d.CmdArgs))
	}
	for line := range strings.Lines(strings.TrimSpace(d.Input)) {
		_, args, err := datadriven.ParseLine("resource " + strings.TrimSpace(line))
		if err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		req.Resources = append(req.Resources, w.alteredResource(args))
	}
	return tell(w, mutate(w, AlterConfigs, req), func(r *controllerv1.AlterConfigsResponse) string {
		var b strings.Builder
		for _, r := range r.GetResources() {
			fmt.Fprintf(&b, "%d %q: %s\n", r.GetType(), r.GetName(), outcomeText(r.GetError()))
		}
		return b.String()
	})
}

func outcomeText(err *controllerv1.Error) string {
	if err == nil {
		return "ok"
	}
	return errorText(err)
}

func (w *world) alteredResource(args []datadriven.CmdArg) *controllerv1.AlterConfigsResource {
	kind, name, _ := strings.Cut(args[0].Key, ":")
	r := &controllerv1.AlterConfigsResource{Name: name}
	switch kind {
	case "topic":
		r.Type = 2
	case "broker", "cluster":
		r.Type = 4
	default:
		r.Type = toID(w.t, kind)
	}
	for _, arg := range args[1:] {
		verb, key, _ := strings.Cut(arg.Key, ":")
		c := &controllerv1.ConfigChange{Key: key, Value: proto.String(strings.Join(arg.Vals, ","))}
		switch verb {
		case "replace":
			r.Replace = true
			continue
		case "set":
			c.Operation = controllerv1.ConfigOperation_CONFIG_OPERATION_SET
		case "null":
			c.Operation, c.Value = controllerv1.ConfigOperation_CONFIG_OPERATION_SET, nil
		case "delete":
			c.Operation, c.Value = controllerv1.ConfigOperation_CONFIG_OPERATION_DELETE, nil
		case "append":
			c.Operation = controllerv1.ConfigOperation_CONFIG_OPERATION_APPEND
		case "subtract":
			c.Operation = controllerv1.ConfigOperation_CONFIG_OPERATION_SUBTRACT
		default:
			c.Operation = 9
		}
		r.Changes = append(r.Changes, c)
	}
	return r
}

// cmdGrow adds partitions: "grow foo count=5", or one topic a line, each with assign=1,2 for each new partition, or
// "assigned" for none.
func (w *world) cmdGrow(d *datadriven.TestData) string {
	req := &controllerv1.CreatePartitionsRequest{}
	if len(d.CmdArgs) > 0 {
		req.Topics = append(req.Topics, w.growingTopic(d.CmdArgs))
	}
	for line := range strings.Lines(strings.TrimSpace(d.Input)) {
		_, args, err := datadriven.ParseLine("grow " + strings.TrimSpace(line))
		if err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		req.Topics = append(req.Topics, w.growingTopic(args))
	}
	return tell(w, mutate(w, CreatePartitions, req), func(r *controllerv1.CreatePartitionsResponse) string {
		var b strings.Builder
		for _, t := range r.GetTopics() {
			fmt.Fprintf(&b, "%s: %s\n", t.GetName(), outcomeText(t.GetError()))
		}
		return b.String()
	})
}

func (w *world) growingTopic(args []datadriven.CmdArg) *controllerv1.GrowingTopic {
	t := &controllerv1.GrowingTopic{Name: args[0].Key}
	for _, arg := range args[1:] {
		switch arg.Key {
		case "count":
			t.Count = toID(w.t, arg.Vals[0])
		case "assigned":
			t.Assigned = true
		case "assign":
			t.Assigned = true
			t.Assignments = append(t.Assignments, &metadatav1.BrokerIDs{Ids: toIDs(w.t, values(arg))})
		}
	}
	return t
}

// cmdReassign moves replicas: "reassign foo-0=(4,5) foo-1=cancel keep-factor".
func (w *world) cmdReassign(d *datadriven.TestData) string {
	req := &controllerv1.AlterReassignmentsRequest{}
	for _, arg := range d.CmdArgs {
		if arg.Key == "keep-factor" {
			req.KeepReplicationFactor = true
			continue
		}
		name, index := w.partition(arg.Key)
		item := &controllerv1.Reassignment{Topic: name, PartitionId: index}
		if len(arg.Vals) == 0 || arg.Vals[0] != "cancel" {
			item.Replicas = &metadatav1.BrokerIDs{Ids: toIDs(w.t, values(arg))}
		}
		req.Partitions = append(req.Partitions, item)
	}
	return tell(w, mutate(w, AlterReassignments, req), func(r *controllerv1.AlterReassignmentsResponse) string {
		var b strings.Builder
		for _, p := range r.GetPartitions() {
			fmt.Fprintf(&b, "%s-%d: %s\n", p.GetTopic(), p.GetPartitionId(), outcomeText(p.GetError()))
		}
		return b.String()
	})
}

// cmdQuota changes quotas, one entity a line: "user=alice client-id=(default) producer_byte_rate:1024
// consumer_byte_rate:remove".
func (w *world) cmdQuota(d *datadriven.TestData) string {
	req := &controllerv1.AlterClientQuotasRequest{}
	for line := range strings.Lines(strings.TrimSpace(d.Input)) {
		entry := &controllerv1.AlterQuotas{}
		for _, word := range strings.Fields(line) {
			if kind, name, entity := strings.Cut(word, "="); entity {
				part := &metadatav1.QuotaEntity{Type: kind}
				if name != "default" {
					part.Name = proto.String(name)
				}
				entry.Entity = append(entry.Entity, part)
				continue
			}
			key, value, _ := strings.Cut(word, ":")
			change := &controllerv1.QuotaChange{Key: key}
			if value != "remove" {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					w.t.Fatalf("%s: %v", word, err)
				}
				change.Value = &v
			}
			entry.Changes = append(entry.Changes, change)
		}
		req.Entries = append(req.Entries, entry)
	}
	return tell(w, mutate(w, AlterClientQuotas, req), func(r *controllerv1.AlterClientQuotasResponse) string {
		var b strings.Builder
		for i, e := range r.GetEntries() {
			fmt.Fprintf(&b, "%d: %s\n", i+1, outcomeText(e.GetError()))
		}
		return b.String()
	})
}

// cmdFeature updates features: "feature up eligible.leader.replicas.version=1", "feature down ...=0", "feature what ...".
func (w *world) cmdFeature(d *datadriven.TestData) string {
	kinds := map[string]controllerv1.FeatureUpdateType{
		"up": controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE, "down": controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE,
	}
	req := &controllerv1.UpdateFeaturesRequest{}
	for _, arg := range d.CmdArgs[1:] {
		req.Updates = append(req.Updates, &controllerv1.FeatureUpdate{Name: arg.Key, Level: toID(w.t, arg.Vals[0]), Type: kinds[d.CmdArgs[0].Key]})
	}
	return tell(w, mutate(w, UpdateFeatures, req), func(r *controllerv1.UpdateFeaturesResponse) string {
		var b strings.Builder
		for _, f := range r.GetFeatures() {
			fmt.Fprintf(&b, "%s: %s\n", f.GetName(), outcomeText(f.GetError()))
		}
		return b.String()
	})
}

func listsText(p fsm.Partition) string {
	var b strings.Builder
	for _, l := range []struct {
		name string
		ids  []int32
	}{{"adding", p.Adding}, {"removing", p.Removing}, {"elr", p.ELR}, {"last known", p.LastKnownELR}} {
		if len(l.ids) > 0 {
			fmt.Fprintf(&b, ", %s %v", l.name, l.ids)
		}
	}
	return b.String()
}

func configText(c *metadatav1.Config) string {
	resource := fsm.ConfigResource{Type: c.GetResourceType(), Name: c.GetResourceName()}
	if c.Value == nil {
		return fmt.Sprintf("config of %s: %s taken away", resource, c.GetKey())
	}
	return fmt.Sprintf("config of %s: %s=%s", resource, c.GetKey(), c.GetValue())
}

func quotaText(q *metadatav1.ClientQuota) string {
	e, err := fsm.QuotaEntityFromProto(q.GetEntity())
	if err != nil {
		return err.Error()
	}
	if q.Value == nil {
		return fmt.Sprintf("quota of %s: %s taken away", e, q.GetKey())
	}
	return fmt.Sprintf("quota of %s: %s=%v", e, q.GetKey(), q.GetValue())
}
