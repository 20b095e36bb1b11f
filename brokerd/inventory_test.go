package brokerd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// reportDesk is a controller that counts inventories.
type reportDesk struct {
	mu      sync.Mutex
	reports []string
	at      []time.Time
	refuse  int
	hang    chan struct{}
}

func (c *reportDesk) ReportInventory(ctx context.Context, _ int32, _, _ int64, replicas []*controllerv1.ReplicaInventory) error {
	if c.hang != nil {
		select {
		case <-c.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse--; c.refuse >= 0 {
		return errors.New("not now")
	}
	c.reports, c.at = append(c.reports, string(rune('0'+len(replicas)))), append(c.at, time.Now())
	return nil
}

func (c *reportDesk) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reports)
}

// reported runs a reporter of what the test says is the case, which change changes.
func reported(t *testing.T, desk *reportDesk, during func(r *reporter, change func(func(*occasion)))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now := occasion{img: registeredImage(t)}
		r := &reporter{
			desk: desk, nodeID: 1, logger: hclog.NewNullLogger(), poke: make(chan struct{}, 1),
			occasion: func() (occasion, bool) {
				mu.Lock()
				defer mu.Unlock()
				return now, now.brokerEpoch > 0
			},
			gather: func(func(fsm.PartitionID) bool) ([]*controllerv1.ReplicaInventory, error) {
				return make([]*controllerv1.ReplicaInventory, 2), nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.run(ctx) })
		during(r, func(f func(*occasion)) {
			mu.Lock()
			defer mu.Unlock()
			f(&now)
		})
		cancel()
		running.Wait()
	})
}

// registered is broker epoch 7, heard by the controller of epoch 3.
func registered(o *occasion) { o.brokerEpoch, o.controllerEpoch = 7, 3 }

func registeredImage(t *testing.T) *fsm.Image {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(), NextMetadataOffset: 1,
	})
	if err == nil {
		img, _, err = fsm.FoldBatches(img, []*metadatav1.Batch{{Records: []*metadatav1.Record{{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
			BrokerId: 1, BrokerEpoch: 1, IncarnationId: fsm.UUID{3}.Bytes(), Fenced: true, Directories: [][]byte{fsm.UUID{4, 4}.Bytes()},
			Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		}}}}}}, 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestAnInventoryIsReportedOncePerOccasion: a registration, a claim, a change; however often somebody nudges.
func TestAnInventoryIsReportedOncePerOccasion(t *testing.T) {
	desk := &reportDesk{}
	reported(t, desk, func(r *reporter, change func(func(*occasion))) {
		nudge := func(want int) {
			t.Helper()
			for range 5 {
				r.nudge()
				time.Sleep(3 * time.Second)
			}
			if got := desk.count(); got != want {
				t.Fatalf("%d reports, want %d", got, want)
			}
		}
		nudge(0) // not registered
		change(registered)
		nudge(1)
		change(func(o *occasion) { o.controllerEpoch = 4 })
		nudge(2)
		change(func(o *occasion) { o.generation = 9 })
		nudge(3)
		change(func(o *occasion) { o.brokerEpoch = 8 })
		nudge(4)
		nudge(4)
	})
}

// TestABurstOfChangesIsToldAFewTimes: a hundred topics deleted within a second are not a hundred reports.
func TestABurstOfChangesIsToldAFewTimes(t *testing.T) {
	desk := &reportDesk{}
	reported(t, desk, func(r *reporter, change func(func(*occasion))) {
		change(registered)
		for range 100 {
			change(func(o *occasion) { o.generation++ })
			r.nudge()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if n := desk.count(); n < 2 || n > 3 {
			t.Fatalf("%d reports of a hundred changes in a second", n)
		}
	})
}

// TestAReportThatIsNotTakenIsRepeated until it is.
func TestAReportThatIsNotTakenIsRepeated(t *testing.T) {
	desk := &reportDesk{refuse: 3}
	reported(t, desk, func(r *reporter, change func(func(*occasion))) {
		change(registered)
		r.nudge()
		time.Sleep(10 * time.Second)
		if n := desk.count(); n != 1 {
			t.Fatalf("%d reports", n)
		}
	})
}

// TestAReportThatHangsHoldsNobodyUp: nudges return at once, and the attempt ends.
func TestAReportThatHangsHoldsNobodyUp(t *testing.T) {
	desk := &reportDesk{}
	reported(t, desk, func(r *reporter, change func(func(*occasion))) {
		desk.hang = make(chan struct{})
		change(registered)
		start := time.Now()
		for range 1000 {
			r.nudge()
		}
		if took := time.Since(start); took > 0 {
			t.Fatalf("nudging took %s", took)
		}
		time.Sleep(reportTimeout + time.Second) // the first attempt is over
		close(desk.hang)
		time.Sleep(time.Second)
		if n := desk.count(); n != 1 {
			t.Fatalf("%d reports", n)
		}
	})
}

// TestAReportIsOfTheLineageThatHearsIt: nobody reports before the roles stand by the registration, or to a controller of the
// last lineage.
func TestAReportIsOfTheLineageThatHearsIt(t *testing.T) {
	img := registeredImage(t)
	reborn, err := fsm.Rebirth(img, fsm.Birth{ClusterID: img.ClusterID(), UUID: fsm.UUID{9}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		epoch, heardBy int64
		img            *fsm.Image
		want           bool
	}{
		"registered and heard":             {1, 5, img, true},
		"no metadata yet":                  {1, 5, nil, false},
		"not heard yet":                    {1, 0, img, false},
		"not registered":                   {-1, 5, img, false},
		"registered, and not applied yet":  {2, 5, img, false},
		"heard by the last lineage":        {fsm.VoidEpoch, 5, reborn, false},
		"registration of the last lineage": {1, reborn.EpochBase() + 1, reborn, false},
	} {
		o, ok := reportOccasion(1, c.epoch, c.heardBy, replica.InventoryState{Image: c.img, Generation: 4})
		if ok != c.want || ok && (o.generation != 4 || o.img != c.img || o.brokerEpoch != 1 || o.controllerEpoch != 5) {
			t.Errorf("%s: %+v, %t", name, o, ok)
		}
	}
}
