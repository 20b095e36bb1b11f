package quorum_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// Every test of this file runs real nodes with real stores, follows each node by itself, and ends with the question
// whether all that followers and callers were told is one history.

// stage is a quorum of three whose proposals and hints can be held back.
type stage struct {
	*quorumtest.Cluster
	t       *testing.T
	history *quorumtest.History
	sluices map[int32]*quorum.Sluice
	next    atomic.Int32
	callers sync.WaitGroup
}

func newStage(t *testing.T, change func(*quorum.Config)) *stage {
	s := &stage{t: t, sluices: map[int32]*quorum.Sluice{}}
	s.next.Store(100)
	s.Cluster = quorumtest.New(t, 3, func(cfg *quorum.Config) {
		if s.sluices[cfg.NodeID] == nil {
			s.sluices[cfg.NodeID] = &quorum.Sluice{}
		}
		s.sluices[cfg.NodeID].Under(cfg)
		if change != nil {
			change(cfg)
		}
	})
	s.history = s.Watch()
	s.commit()
	s.AwaitSame()
	return s
}

// call asks a node to register a broker of its own, and lets the history know what it was told.
func (s *stage) call(n *quorum.Node, broker int32, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id := idOf(3, broker)
	_, offset, err := active.Do(ctx, n.Loop(), controller.RegisterBroker, registration(broker), &metadatav1.Cause{Principal: "test"}, id)
	s.history.Answered(id, offset, err)
	return err
}

// begin is call in the background, with a broker of its own.
func (s *stage) begin(n *quorumtest.Node) (broker int32, answer <-chan error) {
	broker = s.next.Add(1)
	told, node := make(chan error, 1), n.Node
	s.callers.Go(func() { told <- s.call(node, broker, 30*time.Second) })
	return broker, told
}

// commit has a call answered as done by whoever decides.
func (s *stage) commit() {
	s.t.Helper()
	s.Await("a call that is done", func() bool {
		n := s.Active()
		if n == nil {
			return false
		}
		_, answer := s.begin(n)
		return <-answer == nil
	})
}

// settle waits for every caller, and judges the history.
func (s *stage) settle() {
	s.t.Helper()
	s.callers.Wait()
	s.Settle(s.history)
}

func (s *stage) sluice(n *quorumtest.Node) *quorum.Sluice { return s.sluices[n.ID] }

// hold begins a call whose entry is held back between its decision and Raft.
func (s *stage) hold(n *quorumtest.Node) (broker int32, answer <-chan error) {
	s.t.Helper()
	s.sluice(n).Close()
	broker, answer = s.begin(n)
	s.Await("the decision", func() bool { return s.sluice(n).Held() == 1 })
	return broker, answer
}

// handOver gives leadership from one node to another, and waits until Raft has it so.
func (s *stage) handOver(from, to *quorumtest.Node) {
	s.t.Helper()
	if err := from.HandOverTo(to.Node); err != nil {
		s.t.Fatal(err)
	}
	s.Await(to.Name+" to lead", func() bool { return to.Status().RaftState == "Leader" })
}

// wantAbsent: nobody has the broker, and its caller was told that nothing was done.
func (s *stage) wantAbsent(broker int32, answer <-chan error) {
	s.t.Helper()
	if err := <-answer; !active.IsRefused(err, controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER) {
		s.t.Errorf("the caller of a decision that was dropped was told %v, want that nothing was done", err)
	}
	for _, n := range s.Running() {
		if hasBroker(n, broker) {
			s.t.Errorf("I21: %s has broker %d, which a deposed claim decided", n.Name, broker)
		}
	}
}

// TestProposalHeldUntilAnotherHasLedAndClaimed: it reaches Raft when its node follows, or when its node leads again.
func TestProposalHeldUntilAnotherHasLedAndClaimed(t *testing.T) {
	t.Run("its node follows", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newStage(t, nil)
			old, other := s.Active(), s.Others(s.Active())[0]
			broker, answer := s.hold(old)
			s.handOver(old, other)
			s.commit()
			s.sluice(old).Release(1)
			s.wantAbsent(broker, answer)
			s.sluice(old).Open()
			s.commit()
			s.settle()
		})
	})
	t.Run("its node leads again", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newStage(t, nil)
			old, other := s.Active(), s.Others(s.Active())[0]
			broker, answer := s.hold(old)
			s.handOver(old, other)
			s.commit()
			s.sluice(old).Open()
			s.handOver(other, old)
			s.commit()
			s.sluice(old).Release(1)
			s.wantAbsent(broker, answer)
			s.commit()
			s.settle()
		})
	})
	t.Run("its node leads again and has not claimed", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newStage(t, nil)
			old, other := s.Active(), s.Others(s.Active())[0]
			broker, answer := s.hold(old)
			s.handOver(old, other)
			s.commit()
			s.handOver(other, old)
			s.Await("the claim", func() bool { return s.sluice(old).Held() >= 2 })
			s.sluice(old).Open()
			s.sluice(old).Release(s.sluice(old).Held())
			s.wantAbsent(broker, answer)
			s.commit()
			s.settle()
		})
	})
}

// TestLeadershipLostAndWonAtOnce: the node leads again in a later term, and nobody else has claimed between. Only the
// epoch tells that what was decided before is of another term (I2).
func TestLeadershipLostAndWonAtOnce(t *testing.T) {
	for name, coalesced := range map[string]bool{"two hints": false, "one hint": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStage(t, nil)
				old, other := s.Active(), s.Others(s.Active())[0]
				term := old.Status().Term
				broker, answer := s.hold(old)
				s.sluice(other).Close() // it leads, and its claim never comes into the log
				release := func() {}
				if coalesced {
					release = s.sluice(old).HoldHints()
				}
				s.handOver(old, other)
				s.handOver(other, old)
				if got := old.Status().Term; got < term+2 {
					t.Fatalf("term %d after term %d", got, term)
				}
				s.sluice(old).Release(1) // before any claim of the new term
				s.Await("the entry to be dropped", func() bool { return old.Dropped() > 0 })
				s.sluice(old).Open()
				release()
				s.sluice(old).Release(s.sluice(old).Held())
				s.wantAbsent(broker, answer)
				s.commit()
				s.sluice(other).Open()
				s.settle()
			})
		})
	}
}

// holdTwo begins two calls, each in an entry of its own, the second decided on the first, and holds both back.
func (s *stage) holdTwo(n *quorumtest.Node) (second int32, answer <-chan error) {
	s.hold(n)
	second, answer = s.begin(n)
	s.Await("the second decision", func() bool { return s.sluice(n).Held() == 2 })
	return second, answer
}

func newDeepStage(t *testing.T) *stage {
	return newStage(t, func(cfg *quorum.Config) { quorum.Deepen(cfg, 4) })
}

// TestSecondEntryOfALostClaimIsDropped: the first of two entries in flight is lost and ends the claim; the next claim, in
// the same term, takes its place in the log. Then the second has the right epoch and the right first offset, and only the
// claim that it names tells that it is stale (I2).
func TestSecondEntryOfALostClaimIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newDeepStage(t)
		n := s.Active()
		claim := n.Image().ClaimOffset()
		second, answer := s.holdTwo(n)
		s.sluice(n).Lose(1, false)
		s.Await("the next claim", func() bool { return s.sluice(n).Held() == 2 })
		s.sluice(n).Swap()
		s.sluice(n).Release(1)
		s.Await("the next claim to be applied", func() bool { return n.Image().ClaimOffset() > claim })
		s.sluice(n).Release(1)
		s.sluice(n).Open()
		s.Await("the entry to be dropped", func() bool { return n.Dropped() > 0 })
		s.wantAbsent(second, answer)
		s.commit()
		s.settle()
	})
}

// TestEntryAfterALostOneIsDropped: of two entries in flight the first is lost on its way, and the second comes into the
// log. Epoch and claim are right; only its first offset tells that it was decided on what never came to be (I2).
func TestEntryAfterALostOneIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newDeepStage(t)
		n := s.Active()
		second, answer := s.holdTwo(n)
		s.sluice(n).Lose(1, true)
		s.sluice(n).Release(1)
		s.Await("the entry to be dropped", func() bool { return n.Dropped() > 0 })
		s.sluice(n).Open()
		s.sluice(n).Release(s.sluice(n).Held())
		s.wantAbsent(second, answer)
		s.commit()
		s.settle()
	})
}

// TestClaimThatDiesHalfWay: a node wins a term and is deposed before it knows what became of its claim.
func TestClaimThatDiesHalfWay(t *testing.T) {
	t.Run("it is in its own log only", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newStage(t, nil)
			first, second := s.Active(), s.Others(s.Active())[0]
			s.sluice(second).Close()
			s.handOver(first, second)
			s.Await("the claim", func() bool { return s.sluice(second).Held() == 1 })
			waiting, answer := s.begin(second)
			s.Isolate(second)
			s.sluice(second).Open()
			s.sluice(second).Release(1)
			s.Await("another claim", func() bool { a := s.Active(); return a != nil && a != second })
			s.commit()
			s.Heal(second)
			s.wantAbsent(waiting, answer)
			s.settle()
		})
	})
	t.Run("it is committed by the next leader", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newStage(t, nil)
			first, second := s.Active(), s.Others(s.Active())[0]
			s.sluice(second).Close()
			s.handOver(first, second)
			s.Await("the claim", func() bool { return s.sluice(second).Held() == 1 })
			waiting, answer := s.begin(second)
			before := map[*quorumtest.Node]uint64{}
			for _, n := range s.Others(second) {
				before[n] = n.Status().LastIndex
				s.Net.Cut(n.Name, second.Name) // what it sends arrives, and nobody's answer comes back
			}
			s.sluice(second).Open()
			s.sluice(second).Release(1)
			for n, last := range before {
				s.Await("the claim in the log of "+n.Name, func() bool { return n.Status().LastIndex > last })
			}
			s.Await("another claim", func() bool { a := s.Active(); return a != nil && a != second })
			if second.Status().Active {
				t.Error("I21: the node decides in a claim of which it knows nothing")
			}
			s.commit()
			for _, n := range s.Others(second) {
				s.Net.Heal(n.Name, second.Name)
			}
			s.wantAbsent(waiting, answer)
			s.settle()
		})
	})
}

// TestFollowerRestoresWhileTheOtherStalls: one follower must be sent a snapshot over a slow link, the disk of the other
// hangs. Nothing is committed until one of them is back, and everybody is told the truth about what waits.
func TestFollowerRestoresWhileTheOtherStalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disks := map[int32]*quorum.Disk{}
		s := newStage(t, func(cfg *quorum.Config) {
			cfg.TrailingBytes = 1
			if disks[cfg.NodeID] == nil {
				disks[cfg.NodeID] = &quorum.Disk{}
			}
			disks[cfg.NodeID].Under(cfg)
		})
		leader := s.Active()
		behind, stalls := s.Others(leader)[0], s.Others(leader)[1]
		s.Isolate(behind)
		for range 20 {
			s.commit()
		}
		for _, n := range s.Others(behind) {
			if err := n.TakeSnapshot(); err != nil {
				t.Fatal(err)
			}
		}
		before := behind.Status().SnapshotIndex
		release := disks[stalls.ID].Hang()
		defer release()
		var waiting []<-chan error
		for range 5 {
			_, answer := s.begin(leader)
			waiting = append(waiting, answer)
		}
		s.Net.Delay(leader.Name, behind.Name, 50*time.Millisecond)
		s.Heal(behind)
		for i, answer := range waiting {
			if err := <-answer; err != nil {
				t.Errorf("call %d, committed by the leader and the follower that was restored: %v", i, err)
			}
		}
		if got := behind.Status().SnapshotIndex; got <= before {
			t.Errorf("%s was sent no snapshot: its last is at index %d", behind.Name, got)
		}
		release()
		s.settle()
	})
}

// TestShutdownUnderLoadTellsTheTruth: a leader is stopped, one way or the other, while 64 callers are in flight.
func TestShutdownUnderLoadTellsTheTruth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := &quorum.Disk{} // without a delay virtual time would stand still while all is going well
		s := newStage(t, disk.Under)
		disk.Slow(time.Millisecond)
		for round := range 6 {
			leader := s.Active()
			for range 64 {
				s.begin(leader)
			}
			time.Sleep(time.Duration(round) * time.Millisecond)
			if round%2 == 0 {
				s.Crash(leader)
			} else if err := s.Terminate(leader); err != nil {
				t.Error(err)
			}
			s.Await("another claim", func() bool { return s.Active() != nil })
			s.commit()
			s.Start(leader)
			s.AwaitSame()
		}
		s.settle()
		if entries, done, notDone, unknown := s.history.Counts(); done == 0 || notDone+unknown == 0 {
			t.Errorf("%d entries, %d done, %d not done, %d unknown: there was no load, or no shutdown", entries, done, notDone, unknown)
		}
	})
}

var faultSeeds = flag.Uint("faults.seeds", 1, "how many orders of faults TestOneHistoryUnderManyFaults tries")

// TestOneHistoryUnderManyFaults: callers ask every node, while nodes are cut off, killed, started again, handed over and
// slowed down in an order that the seed gives; the order of goroutines is not the seed's.
func TestOneHistoryUnderManyFaults(t *testing.T) {
	for seed := range uint64(*faultSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { manyFaults(t, rand.New(rand.NewPCG(seed, 88))) })
		})
	}
}

func manyFaults(t *testing.T, dice *rand.Rand) {
	disk := &quorum.Disk{}
	s := newStage(t, func(cfg *quorum.Config) {
		disk.Under(cfg)
		cfg.SnapshotBytes, cfg.TrailingBytes = 20_000, 1
	})
	disk.Slow(time.Millisecond)
	for range 30 {
		for range 8 {
			s.begin(s.Nodes[dice.IntN(len(s.Nodes))])
		}
		time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
		victim := s.Nodes[dice.IntN(len(s.Nodes))]
		switch dice.IntN(5) {
		case 0:
			s.Isolate(victim)
			time.Sleep(time.Duration(dice.IntN(2000)) * time.Millisecond)
			s.Heal(victim)
		case 1:
			s.Crash(victim)
			time.Sleep(time.Duration(dice.IntN(500)) * time.Millisecond)
			s.Start(victim)
		case 2:
			if a := s.Active(); a != nil && a != victim {
				_ = a.HandOverTo(victim.Node) // it may have lost leadership meanwhile
			}
		case 3:
			other := s.Nodes[dice.IntN(len(s.Nodes))]
			s.Net.Cut(victim.Name, other.Name)
			time.Sleep(time.Duration(dice.IntN(1500)) * time.Millisecond)
			s.Net.Heal(victim.Name, other.Name)
		case 4:
			disk.Slow(time.Duration(dice.IntN(30)) * time.Millisecond)
		}
	}
	disk.Slow(time.Millisecond)
	s.settle()
	entries, done, notDone, unknown := s.history.Counts()
	t.Logf("%d entries; callers: %d done, %d not done, %d unknown", entries, done, notDone, unknown)
	if done < 20 || notDone == 0 {
		t.Error("the faults left nothing to be judged")
	}
}

// registration of a broker that nobody else registers.
func registration(broker int32) *controllerv1.RegisterRequest {
	return &controllerv1.RegisterRequest{
		BrokerId: broker, IncarnationId: idOf(1, broker).Bytes(), PreviousBrokerEpoch: -1,
		Directories: [][]byte{idOf(2, broker).Bytes()},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
	}
}
