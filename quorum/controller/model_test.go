package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// TestDecisionsAgreeWithADumbModel runs random histories through the controller and through a model that knows only
// sentences: who is up, who is in which ISR, who leads. After every step the image must be what the model says.
func TestDecisionsAgreeWithADumbModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{world: newModelWorld(t), t: t, model: model{brokers: map[int32]*modelBroker{}, parts: map[string]*modelPart{}}}
		h.begin(t)
		h.env.Limits.MaxRecordsPerBatch = rapid.SampledFrom([]int{2, 3, 10_000}).Draw(t, "records per batch")
		t.Repeat(map[string]func(*rapid.T){
			"":         h.compare,
			"register": h.register,
			"ready":    h.ready,
			"ready 2":  h.ready, // twice as likely, so that brokers are up more often than not
			"expire":   h.expire,
			"stop":     h.stop,
			"goodbye":  h.goodbye,
			"forget":   h.forget,
			"create":   h.createTopic,
			"delete":   h.deleteTopic,
			"alter":    h.alter,
			"elect":    h.elect,
		})
	})
}

func newModelWorld(t tester) *world {
	w := newWorld(t)
	w.env.Rand = rand.New(rand.NewPCG(5, 6))
	return w
}

// model is the cluster in the plainest form.
type model struct {
	brokers map[int32]*modelBroker
	parts   map[string]*modelPart
}

type modelBroker struct{ up, stopping bool }

type modelPart struct {
	replicas, isr []int32
	leader        int32
	leaderEpoch   int32
	partEpoch     int32
	recovering    bool
	unclean       bool
}

func (m *model) mayLead(id int32) bool {
	b := m.brokers[id]
	return b != nil && b.up && !b.stopping
}

// settle finds the leader again after the ISR should become isr.
func (p *modelPart) settle(m *model, isr []int32, unclean bool) {
	before := fmt.Sprint(p.isr, p.leader, p.recovering)
	beforeLeader := p.leader
	oldISR := p.isr
	p.leader = -1
	switch {
	case slices.Contains(isr, beforeLeader) && m.mayLead(beforeLeader):
		p.leader = beforeLeader
	default:
		for _, r := range p.replicas {
			if p.leader == -1 && slices.Contains(isr, r) && m.mayLead(r) {
				p.leader = r
			}
		}
	}
	if p.leader == -1 && unclean {
		for _, r := range p.replicas {
			if p.leader == -1 && m.mayLead(r) {
				p.leader, isr, p.recovering = r, []int32{r}, true
			}
		}
	}
	if len(isr) == 0 { // one stays: the leader, or the first replica that was a member
		isr = oldISR
		for i := len(p.replicas) - 1; i >= 0; i-- {
			if slices.Contains(oldISR, p.replicas[i]) {
				isr = []int32{p.replicas[i]}
			}
		}
		if slices.Contains(oldISR, beforeLeader) {
			isr = []int32{beforeLeader}
		}
	}
	p.isr = isr
	p.bump(before, beforeLeader)
}

func (p *modelPart) bump(before string, beforeLeader int32) {
	if p.leader != beforeLeader {
		p.leaderEpoch++
	}
	if fmt.Sprint(p.isr, p.leader, p.recovering) != before {
		p.partEpoch++
	}
}

// leave takes brokers, which are down or stopping by now, out of every ISR.
func (m *model) leave(gone ...int32) {
	for _, p := range m.parts {
		var isr []int32
		touched := false
		for _, id := range p.isr {
			if slices.Contains(gone, id) {
				touched = true
			} else {
				isr = append(isr, id)
			}
		}
		if touched {
			p.settle(m, isr, p.unclean)
		}
	}
}

// history drives the controller and the model side by side.
type history struct {
	*world
	t     *rapid.T
	model model
}

// begin has every broker up and every topic created.
func (h *history) begin(t *rapid.T) {
	for id := range int32(4) {
		h.up(id + 1)
		h.model.brokers[id+1] = &modelBroker{up: true}
	}
	for _, name := range []string{"a", "b", "c"} {
		h.createNamed(t, name)
	}
}

func (h *history) anyBroker(t *rapid.T) int32 { return int32(rapid.IntRange(1, 4).Draw(t, "broker")) }

// registered draws a broker; the step does nothing if the one drawn is not registered.
func (h *history) registered(t *rapid.T) (*fsm.Broker, bool) { return h.img.Broker(h.anyBroker(t)) }

func (h *history) register(t *rapid.T) {
	id := h.anyBroker(t)
	h.must(RegisterBroker(h.img, h.env, h.registration(id)).Refused)
	h.incarnations[id]-- // the request above was a rehearsal: it must not have changed anything
	h.compare(t)
	tell(h.world, RegisterBroker(h.img, h.env, h.registration(id)), nil)
	h.model.brokers[id] = &modelBroker{}
	h.model.leave(id)
}

func (h *history) must(r *Refusal) {
	if r != nil {
		h.t.Fatalf("refused: %v", r)
	}
}

func (h *history) beat(b *fsm.Broker, change func(*controllerv1.SessionRequest)) *controllerv1.SessionResponse {
	req := &controllerv1.SessionRequest{BrokerId: b.ID, BrokerEpoch: b.Epoch, MetadataOffset: h.img.AppliedOffset()}
	change(req)
	h.liveness.Touch(b.ID, b.Epoch, req.GetMetadataOffset(), h.env.Now)
	d := Heartbeat(h.img, h.env, req)
	tell(h.world, d, nil)
	return d.Reply
}

func (h *history) ready(t *rapid.T) {
	b, ok := h.registered(t)
	if !ok {
		return
	}
	behind := rapid.Bool().Draw(t, "behind")
	h.beat(b, func(r *controllerv1.SessionRequest) {
		if behind {
			r.MetadataOffset = b.Epoch - 1
		}
	})
	h.stopped[b.ID] = false
	m := h.model.brokers[b.ID]
	if m.up || m.stopping || behind {
		if m.up && m.stopping {
			h.modelMayStop(b.ID)
		}
		return
	}
	m.up = true
	for _, p := range h.model.parts {
		if p.leader == -1 {
			p.settle(&h.model, p.isr, p.unclean)
		}
	}
}

// modelMayStop follows a broker in controlled shutdown: this history's brokers report at random, so the image is asked
// whether the broker may stop, and the model whether it might.
func (h *history) modelMayStop(id int32) {
	b, _ := h.img.Broker(id)
	if !b.Fenced {
		return
	}
	for name, p := range h.model.parts {
		if p.leader == id {
			h.t.Fatalf("broker %d stopped while it led %s", id, name)
		}
	}
	h.model.brokers[id].up = false
	h.model.leave(id)
}

func (h *history) expire(t *rapid.T) {
	silent := rapid.SliceOfNDistinct(rapid.Int32Range(1, 4), 0, 4, rapid.ID[int32]).Draw(t, "silent")
	h.env.Now = h.env.Now.Add(10 * time.Second)
	h.beatAll(silent)
	h.beatStopped(silent)
	var gone []int32
	for _, id := range silent {
		if m := h.model.brokers[id]; m != nil && m.up {
			m.up = false
			gone = append(gone, id)
		}
	}
	d := ExpireSessions(h.img, h.env)
	slices.Sort(gone)
	if !slices.Equal(d.Reply, gone) {
		t.Fatalf("expired %v, want %v", d.Reply, gone)
	}
	tell(h.world, d, nil)
	h.model.leave(gone...)
}

// beatStopped keeps the sessions of brokers that said goodbye and were not fenced by it; there are none.
func (h *history) beatStopped(silent []int32) {
	for b := range h.img.Brokers() {
		if h.stopped[b.ID] && !b.Fenced && !contains(silent, b.ID) {
			h.t.Fatalf("broker %d said goodbye and is not fenced", b.ID)
		}
	}
}

func (h *history) stop(t *rapid.T) {
	b, ok := h.registered(t)
	if !ok {
		return
	}
	m := h.model.brokers[b.ID]
	h.stopped[b.ID] = false
	wasUp, wasStopping := m.up, m.stopping
	leads := false
	for _, p := range h.model.parts {
		leads = leads || p.leader == b.ID
	}
	answer := h.beat(b, func(r *controllerv1.SessionRequest) { r.WantShutDown = true })
	switch {
	case !wasUp:
		if !answer.GetShouldShutDown() {
			t.Fatal("a fenced broker may stop")
		}
	case wasStopping:
		h.modelMayStop(b.ID)
	case leads:
		m.stopping = true
		h.model.leave(b.ID)
	default:
		m.up = false
		h.model.leave(b.ID)
	}
}

func (h *history) goodbye(t *rapid.T) {
	b, ok := h.registered(t)
	if !ok {
		return
	}
	h.stopped[b.ID] = true
	h.beat(b, func(r *controllerv1.SessionRequest) { r.Goodbye = true })
	if m := h.model.brokers[b.ID]; m.up {
		m.up = false
		h.model.leave(b.ID)
	}
}

func (h *history) forget(t *rapid.T) {
	b, ok := h.registered(t)
	if !ok {
		return
	}
	tell(h.world, UnregisterBroker(h.img, h.env, &controllerv1.UnregisterBrokerRequest{BrokerId: b.ID}), nil)
	delete(h.model.brokers, b.ID)
	h.model.leave(b.ID)
}

func (h *history) createTopic(t *rapid.T) {
	h.createNamed(t, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic"))
}

func (h *history) createNamed(t *rapid.T, name string) {
	replicas := rapid.SliceOfNDistinct(rapid.Int32Range(1, 4), 1, 3, rapid.ID[int32]).Draw(t, "replicas")
	unclean := rapid.Bool().Draw(t, "unclean")
	topic := &controllerv1.CreatableTopic{
		Name: name, NumPartitions: -1, ReplicationFactor: -1,
		Assignments: []*controllerv1.ReplicaAssignment{{BrokerIds: replicas}},
		Configs:     []*controllerv1.TopicConfig{{Key: "unclean.leader.election.enable", Value: proto.String(fmt.Sprint(unclean))}},
	}
	d := CreateTopics(h.img, h.env, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{topic}})
	var isr []int32
	registered := true
	for _, id := range replicas {
		registered = registered && h.model.brokers[id] != nil
		if h.model.mayLead(id) {
			isr = append(isr, id)
		}
	}
	_, exists := h.model.parts[name]
	good := !exists && registered && len(isr) > 0
	if d.Refused != nil { // three records do not fit a batch of two
		if h.env.Limits.MaxRecordsPerBatch > 2 {
			t.Fatalf("refused: %v", d.Refused)
		}
		return
	}
	if got := d.Reply.GetTopics()[0].GetError() == nil; got != good {
		t.Fatalf("created %t, want %t: %v", got, good, d.Reply)
	}
	tell(h.world, d, nil)
	if good {
		h.model.parts[name] = &modelPart{replicas: replicas, isr: isr, leader: isr[0], unclean: unclean}
	}
}

func (h *history) deleteTopic(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")
	req := &controllerv1.DeleteTopicsRequest{Topics: []*controllerv1.DeletableTopic{{Name: name}}}
	tell(h.world, DeleteTopics(h.img, h.env, req), nil)
	delete(h.model.parts, name)
}

func (h *history) alter(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")
	p := h.model.parts[name]
	if p == nil || p.leader == -1 {
		return
	}
	isr := rapid.SliceOfNDistinct(rapid.SampledFrom(p.replicas), 1, len(p.replicas), rapid.ID[int32]).Draw(t, "isr")
	stale := rapid.Int32Range(0, 1).Draw(t, "stale")
	leader, _ := h.img.Broker(p.leader)
	item := &controllerv1.AlterPartition{TopicId: h.topicID(name), LeaderEpoch: p.leaderEpoch, PartitionEpoch: p.partEpoch - stale}
	legal := stale == 0 && slices.Contains(isr, p.leader)
	for _, id := range isr {
		item.NewIsr = append(item.NewIsr, &controllerv1.ISRMember{BrokerId: id, BrokerEpoch: -1})
		legal = legal && h.model.mayLead(id)
	}
	req := &controllerv1.AlterPartitionsRequest{BrokerId: leader.ID, BrokerEpoch: leader.Epoch, Partitions: []*controllerv1.AlterPartition{item}}
	d := AlterPartitions(h.img, h.env, req)
	h.must(d.Refused)
	if got := d.Reply.GetPartitions()[0].GetError() == nil; got != legal {
		t.Fatalf("accepted %t, want %t: %v", got, legal, d.Reply)
	}
	tell(h.world, d, nil)
	h.checkAnswers(d.Reply.GetPartitions())
	if !legal {
		return
	}
	before := fmt.Sprint(p.isr, p.leader, p.recovering)
	p.isr, p.recovering = isr, false
	p.bump(before, p.leader)
}

func (h *history) elect(t *rapid.T) {
	kind := rapid.SampledFrom([]controllerv1.ElectionType{
		controllerv1.ElectionType_ELECTION_TYPE_PREFERRED, controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN,
	}).Draw(t, "kind")
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")
	req := &controllerv1.ElectLeadersRequest{Type: kind, Partitions: []*controllerv1.TopicPartition{{Topic: name}}}
	tell(h.world, ElectLeaders(h.img, h.env, req), nil)
	p := h.model.parts[name]
	if p == nil {
		return
	}
	first := p.replicas[0]
	switch {
	case kind == controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN && p.leader == -1:
		p.settle(&h.model, p.isr, true)
	case kind == controllerv1.ElectionType_ELECTION_TYPE_PREFERRED && slices.Contains(p.isr, first) && h.model.mayLead(first):
		before, leader := fmt.Sprint(p.isr, p.leader, p.recovering), p.leader
		p.leader = first
		p.bump(before, leader)
	}
}

// compare holds the image against the model, sentence by sentence.
func (h *history) compare(t *rapid.T) {
	var want, got []string
	for name, p := range h.model.parts {
		want = append(want, fmt.Sprint(name, p.replicas, p.isr, p.leader, p.leaderEpoch, p.partEpoch, p.recovering))
	}
	for topic := range h.img.Topics() {
		p, _ := topic.Partition(0)
		got = append(got, fmt.Sprint(topic.Name(), p.Replicas, p.ISR, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Recovering))
	}
	for id, m := range h.model.brokers {
		want = append(want, fmt.Sprint("broker ", id, m.up, m.stopping))
		if !m.up && h.img.NumLedBy(id) > 0 {
			t.Fatalf("I7: broker %d is down and leads %d partitions", id, h.img.NumLedBy(id))
		}
	}
	for b := range h.img.Brokers() {
		got = append(got, fmt.Sprint("broker ", b.ID, !b.Fenced, b.InControlledShutdown))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("the image is\n%s\nthe model is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
