package controller

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// TestMovesAndElectionsKeepWhatIsAcknowledged drives moves of replicas, configs, features, elections, deaths and
// returns of brokers through the controller, beside logs that know nothing but how long they are. The image is checked
// after every batch. Besides: whoever is elected, unless uncleanly, has every record that was acknowledged; a move is
// complete only with all its replicas, and then the replicas are those that were asked for; epochs only grow (I9).
func TestMovesAndElectionsKeepWhatIsAcknowledged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &moves{world: newModelWorld(t), t: t, logs: map[string]*replicaLogs{}}
		for id := range int32(5) {
			h.up(id + 1)
		}
		for _, name := range []string{"a", "b"} {
			h.create(t, name)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":          h.verify,
			"write":     h.write,
			"write 2":   h.write,
			"catch up":  h.catchUp,
			"catch up2": h.catchUp,
			"shrink":    h.shrink,
			"reassign":  h.reassign,
			"cancel":    h.cancel,
			"die":       h.die,
			"come back": h.comeBack,
			"come 2":    h.comeBack,
			"elect":     h.elect,
			"min isr":   h.minISR,
			"feature":   h.feature,
			"grow":      h.grow,
		})
	})
}

// moves is a history of moves.
type moves struct {
	*world
	t    *rapid.T
	logs map[string]*replicaLogs
}

// replicaLogs are the logs of one partition.
type replicaLogs struct {
	// end of the log on each broker, and the high watermark: everything below it is acknowledged.
	end  map[int32]int
	high int
	// target are the replicas that were asked for last.
	target []int32
	// was is the partition after the last step.
	was fsm.Partition
}

func (h *moves) create(t *rapid.T, name string) {
	replicas := rapid.SliceOfNDistinct(rapid.Int32Range(1, 5), 1, 3, rapid.ID[int32]).Draw(t, "replicas")
	topic := &controllerv1.CreatableTopic{Name: name, NumPartitions: -1, ReplicationFactor: -1, Assignments: []*controllerv1.ReplicaAssignment{{BrokerIds: replicas}}}
	tell(h.world, CreateTopics(h.img, h.env, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{topic}}), nil)
	h.logs[name+"-0"] = &replicaLogs{end: map[int32]int{}, target: replicas}
}

// draw chooses a partition.
func (h *moves) draw(t *rapid.T) (string, int32, fsm.Partition, *replicaLogs) {
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(h.logs))).Draw(t, "partition")
	name, index := h.partition(key)
	topic, _ := h.img.TopicByName(name)
	p, _ := topic.Partition(index)
	return name, index, p, h.logs[key]
}

// write appends on the leader; members of the ISR copy some of it. What all of them have is acknowledged if there are
// enough of them: the rule that brokers keep (KIP-966).
func (h *moves) write(t *rapid.T) {
	name, _, p, l := h.draw(t)
	if p.Leader == noLeader {
		return
	}
	l.end[p.Leader] += rapid.IntRange(1, 3).Draw(t, "records")
	for _, id := range p.ISR {
		if id != p.Leader {
			l.end[id] = max(l.end[id], l.end[p.Leader]-rapid.IntRange(0, 3).Draw(t, "behind"))
		}
	}
	l.acknowledge(p, h.minISROf(name))
}

func (h *moves) minISROf(topic string) int {
	return int(topicconfig.Of(h.img, h.env.Defaults.Topics, topic).MinInSyncReplicas)
}

func (l *replicaLogs) acknowledge(p fsm.Partition, minISR int) {
	if p.Leader == noLeader || len(p.ISR) < min(minISR, len(p.Replicas)) {
		return
	}
	low := l.end[p.Leader]
	for _, id := range p.ISR {
		low = min(low, l.end[id])
	}
	l.high = max(l.high, low)
}

// alterISR proposes an ISR as the leader would.
func (h *moves) alterISR(name string, index int32, p fsm.Partition, isr []int32) {
	leader, _ := h.img.Broker(p.Leader)
	item := &controllerv1.AlterPartition{TopicId: h.topicID(name), PartitionId: index, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range isr {
		item.NewIsr = append(item.NewIsr, &controllerv1.ISRMember{BrokerId: id, BrokerEpoch: -1})
	}
	req := &controllerv1.AlterPartitionsRequest{BrokerId: leader.ID, BrokerEpoch: leader.Epoch, Partitions: []*controllerv1.AlterPartition{item}}
	tell(h.world, AlterPartitions(h.img, h.env, req), nil)
}

// catchUp lets a replica that is up copy everything, and join the ISR.
func (h *moves) catchUp(t *rapid.T) {
	name, index, p, l := h.draw(t)
	id := rapid.SampledFrom(p.Replicas).Draw(t, "replica")
	if p.Leader == noLeader || slices.Contains(p.ISR, id) || !active(h.img)(id) {
		return
	}
	l.end[id] = l.end[p.Leader]
	h.alterISR(name, index, p, append(slices.Clone(p.ISR), id))
}

func (h *moves) shrink(t *rapid.T) {
	name, index, p, _ := h.draw(t)
	if p.Leader == noLeader {
		return
	}
	id := rapid.SampledFrom(p.ISR).Draw(t, "replica")
	if id != p.Leader {
		h.alterISR(name, index, p, without(p.ISR, id))
	}
}

func (h *moves) reassign(t *rapid.T) {
	name, index, _, l := h.draw(t)
	target := rapid.SliceOfNDistinct(rapid.Int32Range(1, 5), 1, 4, rapid.ID[int32]).Draw(t, "target")
	req := &controllerv1.AlterReassignmentsRequest{Partitions: []*controllerv1.Reassignment{{Topic: name, PartitionId: index, Replicas: &metadatav1.BrokerIDs{Ids: target}}}}
	d := mutate(h.world, AlterReassignments, req)
	if d.Refused != nil || d.Reply.GetPartitions()[0].GetError() != nil {
		t.Fatalf("every broker is registered: %v, %v", d.Refused, d.Reply)
	}
	l.target = target
	tell(h.world, d, nil)
}

func (h *moves) cancel(t *rapid.T) {
	name, index, p, l := h.draw(t)
	req := &controllerv1.AlterReassignmentsRequest{Partitions: []*controllerv1.Reassignment{{Topic: name, PartitionId: index}}}
	d := mutate(h.world, AlterReassignments, req)
	err := d.Reply.GetPartitions()[0].GetError()
	if running := len(p.Adding)+len(p.Removing) > 0; running != (err.GetCode() != controllerv1.ErrorCode_ERROR_CODE_NO_REASSIGNMENT_IN_PROGRESS) {
		t.Fatalf("%v, cancelled: %v", p, err)
	}
	if err == nil {
		l.target = without(p.Replicas, p.Adding...)
	}
	tell(h.world, d, nil)
}

// die kills brokers at once. Their sessions end together.
func (h *moves) die(t *rapid.T) {
	dead := rapid.SliceOfNDistinct(rapid.Int32Range(1, 5), 1, 3, rapid.ID[int32]).Draw(t, "dead")
	h.env.Now = h.env.Now.Add(h.liveness.SessionTimeout() * 2)
	h.beatAll(dead)
	tell(h.world, ExpireSessions(h.img, h.env), nil)
}

// comeBack starts a broker again, after a clean stop or with part of its logs lost. With ELR off the last member of an
// ISR is trusted whatever happened, so that its logs stay whole.
func (h *moves) comeBack(t *rapid.T) {
	id := rapid.Int32Range(1, 5).Draw(t, "broker")
	b, ok := h.img.Broker(id)
	if !ok || !b.Fenced {
		return
	}
	req := h.registration(id)
	if rapid.Bool().Draw(t, "clean") {
		req.PreviousBrokerEpoch = b.Epoch
	} else if h.img.FeatureLevel(fsm.FeatureELR) > 0 {
		for _, l := range h.logs {
			if slices.Equal(l.was.ISR, []int32{id}) {
				continue // from a time when ELR was off
			}
			l.end[id] = max(0, l.end[id]-rapid.IntRange(0, 4).Draw(t, "lost"))
		}
	}
	tell(h.world, RegisterBroker(h.img, h.env, req), nil)
	b, _ = h.img.Broker(id)
	beat := &controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: b.Epoch, MetadataOffset: h.img.AppliedOffset()}
	h.liveness.Touch(id, b.Epoch, beat.GetMetadataOffset(), h.env.Now)
	tell(h.world, Heartbeat(h.img, h.env, beat), nil)
}

func (h *moves) elect(t *rapid.T) {
	name, index, _, _ := h.draw(t)
	req := &controllerv1.ElectLeadersRequest{Type: controllerv1.ElectionType_ELECTION_TYPE_PREFERRED, Partitions: []*controllerv1.TopicPartition{{Topic: name, PartitionId: index}}}
	tell(h.world, mutate(h.world, ElectLeaders, req), nil)
}

func (h *moves) minISR(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
	value := fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "min isr"))
	req := &controllerv1.AlterConfigsRequest{Resources: []*controllerv1.AlterConfigsResource{{Type: 2, Name: name, Changes: []*controllerv1.ConfigChange{{
		Key: "min.insync.replicas", Operation: controllerv1.ConfigOperation_CONFIG_OPERATION_SET, Value: proto.String(value),
	}}}}}
	tell(h.world, mutate(h.world, AlterConfigs, req), nil)
}

func (h *moves) feature(t *rapid.T) {
	up := rapid.Bool().Draw(t, "up")
	update := &controllerv1.FeatureUpdate{Name: fsm.FeatureELR, Type: controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE}
	if up {
		update.Level, update.Type = 1, controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE
	}
	tell(h.world, mutate(h.world, UpdateFeatures, &controllerv1.UpdateFeaturesRequest{Updates: []*controllerv1.FeatureUpdate{update}}), nil)
}

func (h *moves) grow(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
	topic, _ := h.img.TopicByName(name)
	if topic.NumPartitions() >= 3 {
		return
	}
	req := &controllerv1.CreatePartitionsRequest{Topics: []*controllerv1.GrowingTopic{{Name: name, Count: topic.NumPartitions() + 1}}}
	d := mutate(h.world, CreatePartitions, req)
	tell(h.world, d, nil)
	if d.Reply.GetTopics()[0].GetError() == nil {
		topic, _ = h.img.TopicByName(name)
		p, _ := topic.Partition(topic.NumPartitions() - 1)
		h.logs[fmt.Sprintf("%s-%d", name, topic.NumPartitions()-1)] = &replicaLogs{end: map[int32]int{}, target: p.Replicas}
	}
}

// verify holds the image against the logs.
func (h *moves) verify(t *rapid.T) {
	for key, l := range h.logs {
		name, index := h.partition(key)
		topic, _ := h.img.TopicByName(name)
		p, _ := topic.Partition(index)
		if p.LeaderEpoch < l.was.LeaderEpoch || p.PartitionEpoch < l.was.PartitionEpoch {
			t.Fatalf("I9: %s was %v, is %v", key, l.was, p)
		}
		if len(p.Adding)+len(p.Removing) == 0 && !slices.Equal(p.Replicas, l.target) {
			t.Fatalf("%s is on %v, and was last asked to be on %v", key, p.Replicas, l.target)
		}
		if p.Leader != noLeader && !active(h.img)(p.Leader) {
			t.Fatalf("I7: %s is led by broker %d, which is not up", key, p.Leader)
		}
		l.follow(t, key, p)
		l.was = p
	}
}

// follow has the logs do what brokers do when the leader changed: followers truncate to it.
func (l *replicaLogs) follow(t *rapid.T, key string, p fsm.Partition) {
	if p.Leader == noLeader || p.LeaderEpoch == l.was.LeaderEpoch {
		return
	}
	if l.end[p.Leader] < l.high {
		if !p.Recovering {
			t.Fatalf("I17: %s elected broker %d cleanly, which has %d of %d acknowledged records: was %v, is %v", key, p.Leader, l.end[p.Leader], l.high, l.was, p)
		}
		l.high = l.end[p.Leader] // what an unclean election costs
	}
	for id := range l.end {
		l.end[id] = min(l.end[id], l.end[p.Leader])
	}
}
