package controller

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// TestProducerIDsRunOut: the last whole block is given out, nothing after it.
func TestProducerIDsRunOut(t *testing.T) {
	w := newWorld(t)
	b := w.up(1)
	used := w.env.emptyBatch(w.img, reason("test", "use up producer ids"))
	used.Records = []*metadatav1.Record{{Kind: &metadatav1.Record_ProducerIds{ProducerIds: &metadatav1.ProducerIDs{
		BrokerId: 1, BrokerEpoch: b.Epoch, NextProducerId: math.MaxInt64 - ProducerIDBlock,
	}}}}
	w.fold(used)
	req := &controllerv1.ReserveProducerIDsRequest{BrokerId: 1, BrokerEpoch: b.Epoch}
	d := ReserveProducerIDs(w.img, w.env, req)
	if d.Refused != nil || d.Reply.GetFirstProducerId() != math.MaxInt64-ProducerIDBlock {
		t.Fatalf("the last block: %v %v", d.Refused, d.Reply)
	}
	tell(w, d, nil)
	d = ReserveProducerIDs(w.img, w.env, req)
	if d.Refused == nil || d.Refused.Code != controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR {
		t.Errorf("after the last block: %v %v", d.Refused, d.Reply)
	}
}

// TestARegistrationHasABound (I20): its record has to fit a batch, however long the names are.
func TestARegistrationHasABound(t *testing.T) {
	w := newWorld(t)
	req := w.registration(1)
	req.Listeners[0].Host = strings.Repeat("h", 32_000)
	if d := RegisterBroker(w.img, w.env, req); d.Refused != nil {
		t.Errorf("one long name is refused: %v", d.Refused)
	}
	for _, name := range []string{"A", "B", "C"} {
		req.Listeners = append(req.Listeners, &metadatav1.Listener{Name: name, Host: req.GetListeners()[0].GetHost(), Port: 1})
	}
	d := RegisterBroker(w.img, w.env, req)
	if d.Refused == nil || d.Refused.Code != controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION {
		t.Errorf("a registration of %d bytes: %v", proto.Size(req), d.Refused)
	}
}

// TestBatchesStayInTheirBounds: however a decision is cut, no batch is larger than allowed and the order is kept.
func TestBatchesStayInTheirBounds(t *testing.T) {
	w := newWorld(t)
	why := reason("test", "%s", strings.Repeat("because ", 20))
	var records []*metadatav1.Record
	for i := range 3000 {
		records = append(records, changeRecord(&metadatav1.PartitionChange{
			TopicId: fsm.UUID{1}.Bytes(), PartitionId: int32(i), Isr: &metadatav1.BrokerIDs{Ids: make([]int32, i%40)},
		}))
	}
	for _, limits := range []Limits{{MaxRecordsPerBatch: 7, MaxBatchBytes: 1 << 20}, {MaxRecordsPerBatch: 10_000, MaxBatchBytes: 2000}} {
		w.env.Limits = limits
		next := int32(0)
		for _, b := range w.env.batches(w.img, why, records) {
			if len(b.GetRecords()) == 0 || len(b.GetRecords()) > limits.MaxRecordsPerBatch || proto.Size(b) > limits.MaxBatchBytes {
				t.Fatalf("a batch of %d records and %d bytes under %+v", len(b.GetRecords()), proto.Size(b), limits)
			}
			for _, r := range b.GetRecords() {
				if r.GetPartitionChange().GetPartitionId() != next {
					t.Fatalf("partition %d comes before %d", r.GetPartitionChange().GetPartitionId(), next)
				}
				next++
			}
		}
		if int(next) != len(records) {
			t.Errorf("%d of %d records are in the batches", next, len(records))
		}
	}
}

// TestLargeClustersFence: more partitions than a batch holds, and more brokers than a reason names.
func TestLargeClustersFence(t *testing.T) {
	w := newWorld(t)
	for id := range int32(12) {
		w.up(id)
	}
	for i := range 3 {
		req := &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{
			{Name: "topic-" + string(rune('a'+i)), NumPartitions: 5000, ReplicationFactor: 12},
		}}
		d := CreateTopics(w.img, w.env, req)
		if d.Refused != nil || d.Reply.GetTopics()[0].GetError() != nil {
			t.Fatalf("create: %v %v", d.Refused, d.Reply)
		}
		tell(w, d, nil)
	}
	w.env.Now = w.env.Now.Add(time.Minute)
	alive, _ := w.img.Broker(3)
	w.liveness.Touch(3, alive.Epoch, 0, w.env.Now)
	d := ExpireSessions(w.img, w.env)
	if len(d.Reply) != 11 || len(d.Batches) < 2 {
		t.Fatalf("%d brokers expired in %d batches", len(d.Reply), len(d.Batches))
	}
	text := d.Batches[0].GetReason().GetText()
	if !strings.HasSuffix(text, "broker 8 missed its session by 51.0 s, and 3 more") {
		t.Errorf("reason %q", text)
	}
	tell(w, d, nil)
	if led := w.img.NumLedBy(3); led != 15_000 || w.img.NumLeaderless() != 0 {
		t.Errorf("broker 3 leads %d, %d have no leader", led, w.img.NumLeaderless())
	}
}

// TestTopicIDsAreNeverGivenTwice (I10), whatever the dice say.
func TestTopicIDsAreNeverGivenTwice(t *testing.T) {
	w := newWorld(t)
	w.up(1)
	w.env.Rand = dice(1)
	w.create("a", []int32{1})
	w.env.Rand = dice(1) // the same dice again: they give the id of a first
	w.create("b", []int32{1})
	a, _ := w.img.TopicByName("a")
	b, _ := w.img.TopicByName("b")
	if a.ID() == b.ID() {
		t.Errorf("two topics have id %s", a.ID())
	}
	if raw := a.ID(); raw[6]>>4 != 4 || raw[8]>>6 != 2 || raw.String()[0] == '-' {
		t.Errorf("id %s is not a random uuid that Kafka would draw", raw)
	}
}

// TestADecisionChangesNothingItself: the image, the soft state and the request are as before, until the caller folds.
func TestADecisionChangesNothingItself(t *testing.T) {
	w := newWorld(t)
	b := w.up(1)
	w.up(2)
	w.create("foo", []int32{1, 2})
	digest := w.img.Digest()
	requests := []proto.Message{
		w.registration(1),
		&controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: b.Epoch, MetadataOffset: 9, WantShutDown: true},
		&controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{Name: "bar", NumPartitions: -1, ReplicationFactor: -1}}},
	}
	for _, req := range requests {
		before, soft := proto.Clone(req), w.liveness.Clone()
		switch r := req.(type) {
		case *controllerv1.RegisterRequest:
			RegisterBroker(w.img, w.env, r)
		case *controllerv1.SessionRequest:
			Heartbeat(w.img, w.env, r)
		case *controllerv1.CreateTopicsRequest:
			CreateTopics(w.img, w.env, r)
		}
		if !proto.Equal(before, req) {
			t.Errorf("the request changed from %v to %v", before, req)
		}
		if got, ok := w.liveness.ControlledShutdownOffset(1); ok || len(soft.brokers) != len(w.liveness.brokers) {
			t.Errorf("the soft state changed: %d", got)
		}
	}
	if w.img.Digest() != digest {
		t.Error("the image changed")
	}
}

// TestTheControllersOwnDutiesHaveACause even when the caller names none.
func TestTheControllersOwnDutiesHaveACause(t *testing.T) {
	w := newWorld(t)
	w.up(1)
	w.env.Cause = nil
	w.env.Now = w.env.Now.Add(time.Hour)
	for _, b := range ExpireSessions(w.img, w.env).Batches {
		if b.GetCause().GetPrincipal() != "controller" || len(b.GetRequestId()) != 16 || b.GetTimeMs() != w.env.Now.UnixMilli() {
			t.Errorf("batch %v", b)
		}
	}
}

// TestBalancingCanBeTurnedOff: auto.leader.rebalance.enable.
func TestBalancingCanBeTurnedOff(t *testing.T) {
	w := newWorld(t)
	w.up(1)
	w.up(2)
	w.create("foo", []int32{1, 2})
	tell(w, FenceBroker(w.img, w.env, 1, reason("test", "test")), nil)
	b, _ := w.img.Broker(1)
	w.heartbeat(&controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: b.Epoch, MetadataOffset: b.Epoch})
	topic, _ := w.img.TopicByName("foo")
	batch := w.env.emptyBatch(w.img, reason("test", "join the ISR"))
	batch.Records = []*metadatav1.Record{changeRecord(&metadatav1.PartitionChange{
		TopicId: topic.ID().Bytes(), Isr: &metadatav1.BrokerIDs{Ids: []int32{2, 1}},
	})}
	w.fold(batch)
	w.env.Defaults.AutoLeaderRebalance = false
	if d := BalanceLeaders(w.img, w.env); len(d.Batches) != 0 {
		t.Errorf("batches %v", d.Batches)
	}
	w.env.Defaults.AutoLeaderRebalance = true
	if d := BalanceLeaders(w.img, w.env); len(d.Batches) != 1 {
		t.Errorf("batches %v", d.Batches)
	}
}
