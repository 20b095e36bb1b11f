package replica

import (
	"context"
	"time"

	"github.com/skiffmq/skiff/fsm"
)

// Append appends one record batch to a partition that this broker leads. The bytes are stamped in place and must
// not be used by the caller until Append returns. Errors: those of this package, partlog and recordbatch.
func (m *Manager) Append(id fsm.PartitionID, records []byte, o AppendOptions) (Appended, error) {
	p, err := m.partition(id)
	if err != nil {
		return Appended{}, err
	}
	size := len(records)
	a, err := p.append(records, o)
	m.counters.appended(size, err)
	return a, err
}

// AwaitReplicated waits until the in-sync replicas have each append, or until it is certain that this broker
// cannot tell (I13). The errors are in the order of the appends; nil means replicated. When ctx ends the rest is
// answered with ErrRequestTimedOut.
func (m *Manager) AwaitReplicated(ctx context.Context, appends []Appended) []error {
	a := awaited{m: m, appends: appends, errs: make([]error, len(appends)), decided: make([]bool, len(appends))}
	if a.look() {
		return a.errs
	}
	w := newWaiter()
	defer a.withdraw(w)
	if !a.enlist(w) {
		return a.timedOut()
	}
	for !a.look() {
		select {
		case <-w.wake:
		case <-ctx.Done():
			a.look()
			return a.timedOut()
		}
	}
	return a.errs
}

// awaited is the progress of one AwaitReplicated.
type awaited struct {
	m       *Manager
	appends []Appended
	errs    []error
	decided []bool
}

// look asks about what is not decided yet and tells whether all is.
func (a *awaited) look() bool {
	all := true
	for i, x := range a.appends {
		if a.decided[i] {
			continue
		}
		p, err := a.m.partition(x.ID)
		if err != nil {
			a.decided[i], a.errs[i] = true, ErrNotLeaderOrFollower
			continue
		}
		a.decided[i], a.errs[i] = p.replicated(x)
		all = all && a.decided[i]
	}
	return all
}

func (a *awaited) enlist(w *waiter) bool {
	for i, x := range a.appends {
		if p, err := a.m.partition(x.ID); err == nil && !a.decided[i] && !p.enlist(w, forHigh) {
			return false
		}
	}
	return true
}

func (a *awaited) withdraw(w *waiter) {
	for _, x := range a.appends {
		if p, err := a.m.partition(x.ID); err == nil {
			p.withdraw(w)
		}
	}
}

// timedOut answers what is not decided.
func (a *awaited) timedOut() []error {
	for i := range a.errs {
		if !a.decided[i] {
			a.errs[i] = ErrRequestTimedOut
		}
	}
	return a.errs
}

func (p *Partition) enlist(w *waiter, news waitFor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiters.add(w, news)
}

func (p *Partition) withdraw(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters.remove(w)
}

// Fetch reads partitions that this broker leads, waiting up to MaxWait for MinBytes. It returns at once when a
// partition has an error or the follower's log diverges. A follower's fetch is also its report of how far its log
// goes; it may move the high watermark and bring the follower into the ISR.
func (m *Manager) Fetch(ctx context.Context, req FetchRequest) []FetchResult {
	results, enough := m.readAll(req, true)
	if enough || req.MaxWait <= 0 {
		return results
	}
	w := newWaiter()
	defer m.withdraw(w, req)
	if !m.enlist(w, req) {
		return results
	}
	timeout := time.NewTimer(req.MaxWait)
	defer timeout.Stop()
	for {
		if results, enough = m.readAll(req, false); enough {
			return results
		}
		select {
		case <-w.wake:
		case <-timeout.C:
			return results
		case <-ctx.Done():
			return results
		}
	}
}

// readAll reads every partition once and tells whether the request is satisfied.
func (m *Manager) readAll(req FetchRequest, first bool) (results []FetchResult, enough bool) {
	who := reader{replicaID: req.ReplicaID, replicaEpoch: req.ReplicaEpoch, note: first}
	space := room{bytes: req.MaxBytes, atLeastOne: true}
	results = make([]FetchResult, 0, len(req.Partitions))
	total := 0
	for _, f := range req.Partitions {
		res := m.readOne(f, who, space)
		n := len(res.Records)
		total += n
		space.bytes -= n
		space.atLeastOne = space.atLeastOne && n == 0
		enough = enough || res.Err != nil || res.Diverging != nil
		results = append(results, res)
	}
	return results, enough || len(req.Partitions) == 0 || total >= min(req.MinBytes, req.MaxBytes)
}

func (m *Manager) readOne(f FetchPartition, who reader, space room) FetchResult {
	p, err := m.partition(f.ID)
	if err != nil {
		return FetchResult{ID: f.ID, Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, Records: []byte{}, LeaderID: noLeader, LeaderEpoch: noEpoch}
	}
	res, w := p.read(f, who, space)
	if w != nil {
		m.proposer.propose(p, *w)
	}
	return res
}

func (m *Manager) enlist(w *waiter, req FetchRequest) bool {
	news := forHigh
	if req.ReplicaID != ConsumerReplicaID {
		news = forEnd
	}
	for _, f := range req.Partitions {
		if p, err := m.partition(f.ID); err == nil && !p.enlist(w, news) {
			return false
		}
	}
	return true
}

func (m *Manager) withdraw(w *waiter, req FetchRequest) {
	for _, f := range req.Partitions {
		if p, err := m.partition(f.ID); err == nil {
			p.withdraw(w)
		}
	}
}

// ListOffset answers by time, as leader.
func (m *Manager) ListOffset(id fsm.PartitionID, q ListOffsetQuery) (ListOffsetResult, error) {
	p, err := m.partition(id)
	if err != nil {
		return ListOffsetResult{}, err
	}
	return p.listOffset(q)
}

// EpochEnd tells, as leader, where a leader epoch ended (Kafka's OffsetForLeaderEpoch).
func (m *Manager) EpochEnd(id fsm.PartitionID, currentLeaderEpoch, epoch int32) (EpochEnd, error) {
	p, err := m.partition(id)
	if err != nil {
		return EpochEnd{Epoch: noEpoch, EndOffset: -1}, err
	}
	return p.epochEnd(currentLeaderEpoch, epoch)
}
