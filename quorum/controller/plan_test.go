package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// planWorld has brokers in racks and a topic that was placed by hand.
func planWorld(t *testing.T, brokers, racks int, assignments [][]int32) *world {
	t.Helper()
	w := newWorld(t)
	for id := range int32(brokers) {
		if racks > 0 {
			w.racks[id+1] = fmt.Sprint("r", int(id)%racks)
		}
		w.up(id + 1)
	}
	topic := &controllerv1.CreatableTopic{Name: "foo", NumPartitions: -1, ReplicationFactor: -1}
	for i, ids := range assignments {
		topic.Assignments = append(topic.Assignments, &controllerv1.ReplicaAssignment{PartitionId: int32(i), BrokerIds: ids})
	}
	tell(w, CreateTopics(w.img, w.env, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{topic}}), nil)
	return w
}

// applied is where everything is once all moves are complete.
func applied(t *testing.T, img *fsm.Image, moves []Move) map[string][]int32 {
	t.Helper()
	where := map[string][]int32{}
	for topic := range img.Topics() {
		for i, p := range topic.Partitions() {
			where[fmt.Sprint(topic.Name(), "-", i)] = p.Replicas
		}
	}
	for _, m := range moves {
		key := fmt.Sprint(m.Topic, "-", m.Partition)
		if !slices.Equal(where[key], m.From) {
			t.Fatalf("%s moves from %v, it is at %v", key, m.From, where[key])
		}
		where[key] = m.To
	}
	return where
}

func spread(where map[string][]int32, brokers int) (replicas, leaders []int) {
	replicas, leaders = make([]int, brokers), make([]int, brokers)
	for _, ids := range where {
		for i, id := range ids {
			replicas[id-1]++
			if i == 0 {
				leaders[id-1]++
			}
		}
	}
	return replicas, leaders
}

func level(list []int) bool { return slices.Max(list)-slices.Min(list) <= 1 }

// TestPlanFillsANewBroker, and copies no more than what the newcomer gets.
func TestPlanFillsANewBroker(t *testing.T) {
	var at [][]int32
	for i := range 40 {
		at = append(at, []int32{int32(i%3) + 1, int32((i+1)%3) + 1})
	}
	w := planWorld(t, 4, 0, at)
	moves, err := Plan(w.img, PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replicas, leaders := spread(applied(t, w.img, moves), 4)
	copied := 0
	for _, m := range moves {
		copied += len(m.Added())
	}
	if !level(replicas) || !level(leaders) || copied != replicas[3] {
		t.Errorf("replicas %v, leaders %v, %d copied", replicas, leaders, copied)
	}
	if again, err := Plan(moved(t, w, moves), PlanOptions{}); err != nil || len(again) > 0 {
		t.Errorf("the plan after the plan has %d moves, %v", len(again), err)
	}
}

// moved makes the moves and lets them complete.
func moved(t *testing.T, w *world, moves []Move) *fsm.Image {
	t.Helper()
	var records []*metadatav1.Record
	for _, m := range moves {
		topic, _ := w.img.TopicByName(m.Topic)
		records = append(records, changeRecord(&metadatav1.PartitionChange{
			TopicId: topic.ID().Bytes(), PartitionId: m.Partition, Replicas: &metadatav1.BrokerIDs{Ids: m.To}, Isr: &metadatav1.BrokerIDs{Ids: m.To}, Leader: &m.To[0],
		}))
	}
	batch := w.env.emptyBatch(w.img, reason("x", "x"))
	batch.Records = records
	w.fold(batch)
	return w.img
}

// TestPlanEmptiesAnExcludedBroker, and leaves alone what is not on it when all else stands well.
func TestPlanEmptiesAnExcludedBroker(t *testing.T) {
	w := planWorld(t, 4, 2, [][]int32{{1, 2}, {2, 3}, {3, 4}, {4, 1}})
	moves, err := Plan(w.img, PlanOptions{Exclude: []int32{4}})
	if err != nil {
		t.Fatal(err)
	}
	for key, ids := range applied(t, w.img, moves) {
		if slices.Contains(ids, 4) {
			t.Errorf("%s is still on broker 4: %v", key, ids)
		}
	}
	if _, err := Plan(w.img, PlanOptions{Exclude: []int32{2, 3, 4}}); err == nil {
		t.Error("two replicas on one broker")
	}
	if _, err := Plan(w.img, PlanOptions{Topics: []string{"nope"}}); err == nil {
		t.Error("a topic that does not exist")
	}
}

// TestPlansAreLevelAndSpread over random clusters: no broker has two replicas of a partition, no rack has more than its
// share while another has none, and the load of usable brokers is level where there are no racks.
func TestPlansAreLevelAndSpread(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		brokers, racks := 3+dice.IntN(6), dice.IntN(4)
		factor := 1 + dice.IntN(3)
		var at [][]int32
		for range 1 + dice.IntN(60) {
			var ids []int32
			for _, i := range dice.Perm(brokers)[:factor] {
				ids = append(ids, int32(i)+1)
			}
			at = append(at, ids)
		}
		w := planWorld(t, brokers, racks, at)
		moves, err := Plan(w.img, PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		where := applied(t, w.img, moves)
		for key, ids := range where {
			checkPlaced(t, key, ids, factor, racks, brokers)
		}
		replicas, leaders := spread(where, brokers)
		if racks < 2 && (!level(replicas) || !level(leaders)) {
			t.Fatalf("%d brokers, factor %d, %d partitions: replicas %v, leaders %v", brokers, factor, len(at), replicas, leaders)
		}
	}
}

func checkPlaced(t *testing.T, key string, ids []int32, factor, racks, brokers int) {
	t.Helper()
	seen, used := map[int32]bool{}, map[int32]bool{}
	for _, id := range ids {
		seen[id] = true
		if racks > 0 {
			used[(id-1)%int32(racks)] = true
		}
	}
	if len(seen) != factor {
		t.Fatalf("%s: %v", key, ids)
	}
	if racks > 0 && len(used) != min(factor, racks, brokers) {
		t.Fatalf("%s: %v is on %d of %d racks", key, ids, len(used), racks)
	}
}
