package rpc_test

import (
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/rpc"
)

// fencedBroker is an image with broker 1, fenced, and its broker epoch.
func fencedBroker(t *testing.T) (*fsm.Image, int64) {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	env := &controller.Env{Limits: controller.DefaultLimits(), Defaults: controller.KafkaDefaults(), Liveness: controller.NewLiveness(9 * time.Second)}
	d := controller.RegisterBroker(img, env, &controllerv1.RegisterRequest{
		BrokerId: 1, IncarnationId: fsm.UUID{3}.Bytes(), PreviousBrokerEpoch: -1, Directories: [][]byte{fsm.UUID{4}.Bytes()},
		Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
	})
	img, _, err = fsm.FoldBatches(img, d.Batches, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := img.Broker(1)
	return img, b.Epoch
}

func TestAGoodbyeWaitsBehindTheHeartbeatThatIsBeingDecided(t *testing.T) {
	img, epoch := fencedBroker(t)
	desk := rpc.NewDesk[string]()
	var first, second rpc.BrokerSession
	ready := &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch}
	goodbye := &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, Goodbye: true}
	for i, c := range []struct {
		session *rpc.BrokerSession
		req     *controllerv1.SessionRequest
		want    rpc.Fate
		heard   bool
	}{
		{&first, ready, rpc.ToDecide, true},
		{&first, ready, rpc.Answered, true}, // the next one asks again
		{&second, goodbye, rpc.Waits, false},
		{&second, goodbye, rpc.Answered, false}, // one is enough
	} {
		if h := desk.Take(c.session, img, c.req, "goodbye"); h.Fate != c.want || h.Heard != c.heard || (h.Answer != nil) != (c.want == rpc.Answered) {
			t.Fatalf("heartbeat %d: %+v", i, h)
		}
	}
	if call, ok := desk.Decided(1); !ok || call != "goodbye" {
		t.Fatalf("the goodbye is lost: %q, %v", call, ok)
	}
	if h := desk.Take(&first, img, ready, "late"); h.Fate != rpc.Answered {
		t.Fatalf("a heartbeat beside the goodbye: %+v", h)
	}
	if call, ok := desk.Decided(1); ok {
		t.Fatalf("%q is decided twice", call)
	}
	if h := desk.Take(&first, img, ready, ""); h.Fate != rpc.ToDecide {
		t.Fatalf("nothing is decided any more: %+v", h)
	}
}

func TestOnlyTheLastSessionThatItsBrokerEndedWithoutAGoodbyeSaysSomething(t *testing.T) {
	img, epoch := fencedBroker(t)
	beat := func(epoch int64, goodbye bool) *controllerv1.SessionRequest {
		return &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, Goodbye: goodbye}
	}
	for _, c := range []struct {
		name   string
		last   *controllerv1.SessionRequest
		others int
		byPeer bool
		want   bool
	}{
		{"it died", beat(epoch, false), 0, true, true},
		{"we ended it", beat(epoch, false), 0, false, false},
		{"it said goodbye", beat(epoch, true), 0, true, false},
		{"it has another one", beat(epoch, false), 1, true, false},
		{"of an earlier incarnation", beat(epoch-1, false), 0, true, false},
	} {
		desk := rpc.NewDesk[string]()
		for range c.others {
			desk.Take(&rpc.BrokerSession{}, img, beat(epoch, false), "")
		}
		var s rpc.BrokerSession
		desk.Take(&s, img, c.last, "")
		if broker, at, gone := desk.End(&s, img, c.byPeer); gone != c.want || gone && (broker != 1 || at != epoch) {
			t.Errorf("%s: broker %d in epoch %d, gone %v", c.name, broker, at, gone)
		}
		if _, _, gone := desk.End(&s, img, true); gone {
			t.Errorf("%s: it ended twice", c.name)
		}
	}
	var silent rpc.BrokerSession
	if _, _, gone := rpc.NewDesk[string]().End(&silent, img, true); gone {
		t.Error("a session without a heartbeat is nobody's")
	}
}

func TestASessionIsOfOneBroker(t *testing.T) {
	img, epoch := fencedBroker(t)
	desk := rpc.NewDesk[string]()
	var s rpc.BrokerSession
	desk.Take(&s, img, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch}, "")
	if h := desk.Take(&s, img, &controllerv1.SessionRequest{BrokerId: 2}, ""); h.Fate != rpc.Refused || h.Refusal == nil || h.Heard {
		t.Fatalf("a heartbeat of another broker: %+v", h)
	}
}
