package replica

import (
	"errors"
	"fmt"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// append appends one record batch as leader. The records are stamped in place.
func (p *Partition) append(records []byte, o AppendOptions) (Appended, error) {
	s, err := p.mayAppend(o)
	if err != nil {
		return Appended{}, err
	}
	if err := p.validate(records, s); err != nil {
		return Appended{}, err
	}
	a, err := p.write(records, o)
	if err != nil {
		return a, err
	}
	return a, p.settle(a)
}

// mayAppend refuses early what would be refused later, before any work is done for it.
func (p *Partition) mayAppend(o AppendOptions) (topicconfig.Settings, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings, p.checkAppend(o)
}

// checkAppend is called with mu held.
func (p *Partition) checkAppend(o AppendOptions) error {
	if err := p.checkLeader(o.LeaderEpoch); err != nil {
		return err
	}
	if v := p.view(); o.Acks == AcksAll && p.leader.underMinISR(v) {
		return fmt.Errorf("append to %s: ISR %v, need %d: %w", p.name(), p.leader.isr.committed, p.leader.effectiveMinISR(v), ErrNotEnoughReplicas)
	}
	return nil
}

// validate judges the batch without holding anything: a checksum takes time.
func (p *Partition) validate(records []byte, s topicconfig.Settings) error {
	if _, err := recordbatch.Validate(records, recordbatch.Limits{MaxBytes: int(s.MaxMessageBytes)}); err != nil {
		return fmt.Errorf("append to %s: %w", p.name(), err)
	}
	return nil
}

// write appends under mu, so that the leadership that was checked is the one that appends (I14).
func (p *Partition) write(records []byte, o AppendOptions) (Appended, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkAppend(o); err != nil {
		return Appended{}, err
	}
	stamp := int64(-1)
	if p.settings.LogAppendTime {
		stamp = p.view().now.UnixMilli()
	}
	info, err := p.log.Append(records, p.leaderEpoch, partlog.AppendOptions{LogAppendTimeMs: stamp})
	if err != nil {
		if errors.Is(err, partlog.ErrStorage) {
			err = fmt.Errorf("%w: %w", ErrStorage, err)
			p.fail(err)
		}
		return Appended{}, fmt.Errorf("append to %s: %w", p.name(), err)
	}
	p.ended()
	return Appended{
		ID: p.id, LeaderEpoch: p.leaderEpoch, BaseOffset: info.BaseOffset, LastOffset: info.LastOffset,
		LogAppendTimeMs: stamp, LogStartOffset: info.LogStartOffset,
	}, nil
}

// ended tells the role that our own log counts further, and everybody who waits for it. Called with mu held and
// as leader.
func (p *Partition) ended() {
	p.leader.localEnd(p.countedEnd())
	p.waiters.wake(forEnd)
	p.advance()
}

// settle makes an append durable where this broker has the only replica.
func (p *Partition) settle(a Appended) error {
	if _, only := p.flusher.durable(); !only {
		return nil
	}
	err := p.flusher.flush(a.LastOffset + 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.fail(err)
		return fmt.Errorf("append to %s: %w", p.name(), err)
	}
	if p.leader != nil {
		p.ended()
	}
	return nil
}

// replicated tells whether the append a is decided, and how: nil when the ISR has it.
func (p *Partition) replicated(a Appended) (decided bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leader == nil || p.leaderEpoch != a.LeaderEpoch:
		return true, fmt.Errorf("%s: no longer leader in epoch %d: %w", p.name(), a.LeaderEpoch, ErrNotLeaderOrFollower)
	case p.leader.high <= a.LastOffset && !plantedEarlyAck:
		return false, nil
	case p.leader.underMinISR(p.view()):
		return true, fmt.Errorf("%s: ISR is %v: %w", p.name(), p.leader.isr.committed, ErrNotEnoughReplicasAfterAppend)
	default:
		return true, nil
	}
}
