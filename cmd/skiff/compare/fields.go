package compare

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/skiffmq/skiff/fsm"
)

// The functions below spell an object as fields, always the same ones in the same order; nil for no object. Values stand in A.

func clusterFields(img *fsm.Image) []Field {
	return []Field{
		{Name: "cluster id", A: img.ClusterID()},
		{Name: "lineage", A: img.Lineage().ID.String()},
		{Name: "confirmed", A: strconv.FormatBool(img.Confirmed())},
		{Name: "next producer id", A: strconv.FormatInt(img.NextProducerID(), 10)},
	}
}

func brokerFields(b *fsm.Broker) []Field {
	if b == nil {
		return nil
	}
	rack := ""
	if b.HasRack {
		rack = strconv.Quote(b.Rack)
	}
	return []Field{
		{Name: "epoch", A: strconv.FormatInt(b.Epoch, 10)},
		{Name: "incarnation", A: b.IncarnationID.String()},
		{Name: "fenced", A: strconv.FormatBool(b.Fenced)},
		{Name: "in controlled shutdown", A: strconv.FormatBool(b.InControlledShutdown)},
		{Name: "rack", A: rack},
		{Name: "listeners", A: listeners(b.Listeners)},
		{Name: "features", A: features(b.Features)},
		{Name: "directories", A: uuids(b.Directories)},
	}
}

func controllerFields(c *fsm.Controller) []Field {
	if c == nil {
		return nil
	}
	return []Field{
		{Name: "directory", A: c.DirectoryID.String()},
		{Name: "incarnation", A: c.IncarnationID.String()},
		{Name: "listeners", A: listeners(c.Listeners)},
		{Name: "features", A: features(c.Features)},
	}
}

func partitionFields(p *fsm.Partition) []Field {
	if p == nil {
		return nil
	}
	return []Field{
		{Name: "leader", A: leader(p.Leader)},
		{Name: "isr", A: ids(p.ISR)},
		{Name: "replicas", A: ids(p.Replicas)},
		{Name: "adding", A: ids(p.Adding)},
		{Name: "removing", A: ids(p.Removing)},
		{Name: "elr", A: ids(p.ELR)},
		{Name: "last known elr", A: ids(p.LastKnownELR)},
		{Name: "awaiting inventory", A: strconv.FormatBool(p.AwaitingInventory)},
		{Name: "recovering", A: strconv.FormatBool(p.Recovering)},
		{Name: "directories", A: uuids(p.Directories)},
		{Name: "leader epoch", A: strconv.Itoa(int(p.LeaderEpoch))},
		{Name: "partition epoch", A: strconv.Itoa(int(p.PartitionEpoch))},
	}
}

func configs(img *fsm.Image, r fsm.ConfigResource) map[string]string {
	out := make(map[string]string)
	for _, e := range img.Configs(r) {
		out[e.Key] = e.Value
	}
	return out
}

func levels(img *fsm.Image) map[string]string {
	out := make(map[string]string)
	for name, level := range img.FeatureLevels() {
		out[name] = strconv.Itoa(int(level))
	}
	return out
}

// quotas are the keys of each kind of client.
func quotas(img *fsm.Image) map[string]map[string]string {
	out := make(map[string]map[string]string)
	for q := range img.Quotas() {
		entity := q.Entity.String()
		if out[entity] == nil {
			out[entity] = make(map[string]string)
		}
		out[entity][q.Key] = strconv.FormatFloat(q.Value, 'g', -1, 64)
	}
	return out
}

func leader(id int32) string {
	if id < 0 {
		return "none"
	}
	return strconv.Itoa(int(id))
}

func ids(list []int32) string { return strings.Trim(fmt.Sprint(list), "[]") }

func uuids(list []fsm.UUID) string { return strings.Trim(fmt.Sprint(list), "[]") }

func listeners(list []fsm.Listener) string {
	texts := make([]string, 0, len(list))
	for _, l := range list {
		texts = append(texts, fmt.Sprintf("%s://%s", l.Name, l.Address()))
	}
	return strings.Join(texts, " ")
}

func features(list []fsm.Feature) string {
	texts := make([]string, 0, len(list))
	for _, f := range list {
		texts = append(texts, fmt.Sprintf("%s=%d..%d", f.Name, f.Min, f.Max))
	}
	return strings.Join(texts, " ")
}
