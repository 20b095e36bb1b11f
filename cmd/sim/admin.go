package main

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

const (
	// adminPatience is how long a client waits for one answer, adminAttempts how often it looks for the controller.
	adminPatience = 8 * time.Second
	adminAttempts = 30
	// opsPerName bounds the history of one topic name, and so the cost of judging it.
	opsPerName = 40
	// judgeTime bounds the search for an order of one history.
	judgeTime = 10 * time.Second
)

// verb is what a client does to a topic name.
type verb int

const (
	create verb = iota
	remove
	describe
)

func (v verb) String() string { return [...]string{"create", "delete", "describe"}[v] }

// result is what it was answered.
type result int

const (
	unknown result = iota // it may have happened, and may still happen
	done
	exists
	missing
	refused // certainly not done
)

func (r result) String() string {
	return [...]string{"unknown", "done", "exists", "missing", "refused"}[r]
}

// reply is the answer with the topic's id, if it named one.
type reply struct {
	result result
	id     fsm.UUID
}

// topicState is a topic name in the sequential model. A topic whose creation was not answered has an id that the first
// answer that names it tells.
type topicState struct {
	there bool
	id    fsm.UUID
}

// topicModel is one topic name: create, delete and describe take effect at one instant each. What was not answered is
// concurrent with everything after it: it may stand at the end, where nobody sees it.
var topicModel = porcupine.Model{
	Init: func() any { return topicState{} },
	Step: func(state, input, output any) (bool, any) {
		s, _ := state.(topicState)
		v, _ := input.(verb)
		out, _ := output.(reply)
		return s.step(v, out)
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
}

func (s topicState) step(v verb, out reply) (bool, topicState) {
	switch v {
	case create:
		switch out.result {
		case done:
			return !s.there, topicState{true, out.id}
		case exists:
			return s.there, s
		case unknown:
			if !s.there {
				return true, topicState{there: true}
			}
		case missing, refused:
		}
		return true, s
	case remove:
		switch out.result {
		case done:
			return s.there && s.is(out.id), topicState{}
		case missing:
			return !s.there, s
		case unknown:
			return true, topicState{}
		case exists, refused:
		}
		return true, s
	case describe:
		switch out.result {
		case done:
			return s.there && s.is(out.id), topicState{true, out.id}
		case missing:
			return !s.there, s
		case unknown, exists, refused:
		}
	}
	return true, s
}

func (s topicState) is(id fsm.UUID) bool { return s.id.IsZero() || s.id == id }

// history is what clients saw of one name.
type history struct {
	name string
	ops  []porcupine.Operation
	open int
	made int
}

// adminClient creates, deletes and describes topics.
type adminClient struct {
	proc
	s    *Sim
	ctrl *node
}

func (c *adminClient) loop() {
	if c.s.quiet {
		return
	}
	c.s.agenda.after(c.s.between(c.s.opt.Think/2, 8*c.s.opt.Think), &c.proc, func() { c.act() })
}

// act begins one operation on one of the names in use.
func (c *adminClient) act() {
	s := c.s
	i := s.rnd.IntN(len(s.names))
	h := s.names[i]
	if h.made >= opsPerName {
		s.retired = append(s.retired, h)
		h = s.newName()
		s.names[i] = h
	}
	h.made++
	h.open++
	v := []verb{create, create, remove, describe, describe}[s.rnd.IntN(5)]
	s.moment++
	op := porcupine.Operation{ClientId: c.index, Input: v, Call: s.moment, Output: reply{}, Return: 1 << 62}
	c.attempt(h, v, adminAttempts, func(r reply) {
		h.open--
		op.Output = r
		if r.result != unknown {
			s.moment++
			op.Return = s.moment
		}
		s.tracef("%s: %s %s -> %s", c.name, v, h.name, r.result)
		if r.result != refused {
			h.ops = append(h.ops, op)
			s.stats.adminOps[r.result]++
		}
		c.loop()
	})
}

func (s *Sim) newName() *history {
	s.named++
	return &history{name: fmt.Sprintf("t%d", s.named)}
}

// attempt sends the operation to a node; one that is certainly not done is tried again elsewhere.
func (c *adminClient) attempt(h *history, v verb, left int, done func(reply)) {
	s := c.s
	if left == 0 || s.quiet {
		done(reply{result: refused})
		return
	}
	if c.ctrl == nil || left == adminAttempts && s.rnd.IntN(4) == 0 { // some ask whom they know no good of
		c.ctrl = s.nodes[s.rnd.IntN(len(s.nodes))]
	}
	n := c.ctrl
	op, request := c.operation(h.name, v)
	s.check.sent(request)
	s.net.call(&c.proc, &n.proc, adminPatience, func(answer func(func())) {
		n.submit(op, adminPatience, func(out active.Outcome) {
			s.check.answeredOp(n, request, out)
			answer(func() {
				if active.IsRefused(out.Err, controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER) {
					c.ctrl = nil
					s.agenda.after(s.between(10*time.Millisecond, 200*time.Millisecond), &c.proc, func() { c.attempt(h, v, left-1, done) })
					return
				}
				done(read(v, h.name, out))
			})
		})
	}, func() {
		c.ctrl = nil
		done(reply{})
	})
}

// operation makes the request.
func (c *adminClient) operation(name string, v verb) (*active.Op, fsm.UUID) {
	s := c.s
	id := s.uuid()
	cause := &metadatav1.Cause{Principal: c.name, RequestKind: v.String()}
	switch v {
	case create:
		rf := int32(1 + s.rnd.IntN(min(3, len(s.brokers))))
		topic := &controllerv1.CreatableTopic{Name: name, NumPartitions: int32(1 + s.rnd.IntN(2)), ReplicationFactor: rf}
		if s.rnd.IntN(3) == 0 { // nobody writes to these topics
			topic.Configs = []*controllerv1.TopicConfig{{Key: "unclean.leader.election.enable", Value: proto.String("true")}}
		}
		return active.NewOp(controller.CreateTopics, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{topic}}, cause, id), id
	case remove:
		return active.NewOp(controller.DeleteTopics, &controllerv1.DeleteTopicsRequest{Topics: []*controllerv1.DeletableTopic{{Name: name}}}, cause, id), id
	case describe:
	}
	return active.NewBarrier(), id
}

// read makes the model's answer of the real one.
func read(v verb, name string, out active.Outcome) reply {
	if out.Err != nil {
		return reply{}
	}
	if v == describe {
		if t, ok := out.Image.TopicByName(name); ok {
			return reply{done, t.ID()}
		}
		return reply{result: missing}
	}
	var code controllerv1.ErrorCode
	var raw []byte
	switch resp := out.Reply.(type) {
	case *controllerv1.CreateTopicsResponse:
		code, raw = resp.GetTopics()[0].GetError().GetCode(), resp.GetTopics()[0].GetTopicId()
	case *controllerv1.DeleteTopicsResponse:
		code, raw = resp.GetTopics()[0].GetError().GetCode(), resp.GetTopics()[0].GetTopicId()
	}
	switch code {
	case controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED:
		id, err := fsm.UUIDFromBytes(raw)
		if err != nil {
			return reply{}
		}
		return reply{done, id}
	case controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS:
		return reply{result: exists}
	case controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION:
		return reply{result: missing}
	}
	return reply{result: refused}
}

// judge looks for an order in which every history makes sense.
func (s *Sim) judge() {
	for _, h := range append(s.retired, s.names...) {
		switch porcupine.CheckOperationsTimeout(topicModel, h.ops, judgeTime) {
		case porcupine.Illegal:
			s.fail(4, "the history of topic %s has no order that explains it:\n%s", h.name, describeHistory(h.ops))
			return
		case porcupine.Unknown:
			s.stats.undecided++
		case porcupine.Ok:
			s.stats.judged++
		}
	}
}

func describeHistory(ops []porcupine.Operation) string {
	text := ""
	for _, op := range ops {
		text += fmt.Sprintf("  [%d, %d] client %d: %v -> %v\n", op.Call, op.Return, op.ClientId, op.Input, op.Output)
	}
	return text
}
