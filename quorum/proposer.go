package quorum

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/active"
)

// proposalsMax bounds the proposals that wait for Raft to take them. The active controller bounds the bytes itself.
const proposalsMax = 64

// proposer is the active controller's way into Raft. One goroutine hands entries over in order; each entry then waits
// in a goroutine of its own for what became of it. Every proposal is answered by its deadline, whatever Raft does.
type proposer struct {
	raft    *raft.Raft // set by start
	queue   chan *proposal
	stop    chan struct{}
	stopped sync.Once
	wg      sync.WaitGroup
}

var _ active.Log = (*proposer)(nil)

func newProposer() *proposer {
	return &proposer{queue: make(chan *proposal, proposalsMax), stop: make(chan struct{})}
}

// start begins to hand entries to Raft. It is called once, before anything is proposed.
func (p *proposer) start(r *raft.Raft) {
	p.raft = r
	p.wg.Go(p.run)
}

// proposal is one entry on its way.
type proposal struct {
	entry    []byte
	deadline time.Time
	answer   chan active.Answer // capacity 1
	once     sync.Once
	// over is closed when the proposal is answered: nobody waits for Raft any longer.
	over chan struct{}

	// seized is set by whoever comes first: run, which gives the entry to Raft, or giveUp, which takes it back.
	seized atomic.Bool
}

// seize tells whether the caller came first.
func (pr *proposal) seize() bool { return pr.seized.CompareAndSwap(false, true) }

// Propose queues the entry. See active.Log.
func (p *proposer) Propose(entry []byte, timeout time.Duration) <-chan active.Answer {
	pr := &proposal{entry: entry, deadline: time.Now().Add(timeout), answer: make(chan active.Answer, 1), over: make(chan struct{})}
	select {
	case <-p.stop:
		pr.settle(active.Answer{Err: fmt.Errorf("%w: the node is stopping", active.ErrNotAppended)})
		return pr.answer
	default:
	}
	select {
	case p.queue <- pr:
		p.wg.Go(func() { p.watch(pr, timeout) })
	default:
		pr.settle(active.Answer{Err: fmt.Errorf("%w: %d proposals wait already", active.ErrNotAppended, proposalsMax)})
	}
	return pr.answer
}

// watch answers the proposal when its time is over or the node stops.
func (p *proposer) watch(pr *proposal, timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-pr.over:
	case <-timer.C:
		pr.giveUp("its deadline passed")
	case <-p.stop:
		pr.giveUp("the node is stopping")
	}
}

// giveUp answers without Raft: what Raft was not given yet is certainly not in the log.
func (pr *proposal) giveUp(why string) {
	err := active.ErrUnknown
	if pr.seize() {
		err = active.ErrNotAppended
	}
	pr.settle(active.Answer{Err: fmt.Errorf("%w: %s", err, why)})
}

func (pr *proposal) settle(a active.Answer) {
	pr.once.Do(func() {
		pr.answer <- a
		close(pr.over)
	})
}

// run hands entries to Raft in the order in which they were proposed.
func (p *proposer) run() {
	for {
		select {
		case pr := <-p.queue:
			p.hand(pr)
		case <-p.stop:
			return
		}
	}
}

func (p *proposer) hand(pr *proposal) {
	left := time.Until(pr.deadline)
	if left <= 0 || !pr.seize() {
		return // watch answers it
	}
	future := p.raft.Apply(pr.entry, left)
	giveUpOn(future, pr.over)
	p.wg.Go(func() { pr.settle(answerOf(future)) })
}

// giveUpOn makes future.Error return when over is closed. Raft never answers some of the futures that are on their
// way when it shuts down (hashicorp/raft#498), and who waits for one would wait for ever. The channel that would end
// the wait is an exported field of the future, which Raft leaves empty; a test fails if that ever changes.
func giveUpOn(future raft.Future, over chan struct{}) {
	v := reflect.ValueOf(future)
	if v.Kind() != reflect.Pointer {
		return // an answer that is there already
	}
	field := v.Elem().FieldByName("ShutdownCh")
	if field.IsValid() && field.CanSet() && field.Type() == reflect.TypeOf(over) {
		field.Set(reflect.ValueOf(over))
	}
}

func answerOf(future raft.ApplyFuture) active.Answer {
	if err := future.Error(); err != nil {
		if isNotAppended(err) {
			return active.Answer{Err: fmt.Errorf("%w: %w", active.ErrNotAppended, err)}
		}
		return active.Answer{Err: fmt.Errorf("%w: %w", active.ErrUnknown, err)}
	}
	result, ok := future.Response().(fsm.Result)
	if !ok {
		return active.Answer{Err: fmt.Errorf("%w: the fold answered a %T", active.ErrUnknown, future.Response())}
	}
	return active.Answer{Result: result}
}

// isNotAppended tells the errors after which the entry is certainly not in the log. ErrLeadershipLost and
// ErrRaftShutdown are not among them.
func isNotAppended(err error) bool {
	return errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) || errors.Is(err, raft.ErrLeadershipTransferInProgress)
}

// close answers every proposal and waits for the goroutines. Raft may still be running or not; it must not be blocked
// in its fold.
func (p *proposer) close() {
	p.stopped.Do(func() { close(p.stop) })
	p.wg.Wait()
}
