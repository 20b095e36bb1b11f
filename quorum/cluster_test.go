package quorum_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// register writes a broker's registration through the active controller: a small change of the metadata.
func register(ctx context.Context, loop *active.Loop, broker int32) error {
	_, _, err := active.Do(ctx, loop, controller.RegisterBroker, registration(broker), &metadatav1.Cause{Principal: "test"}, idOf(3, broker))
	return err
}

// idOf is a uuid that belongs to a broker.
func idOf(kind byte, broker int32) (u fsm.UUID) {
	u[0] = kind
	binary.BigEndian.PutUint32(u[1:], uint32(broker))
	return u
}

func mustRegister(t *testing.T, c *quorumtest.Cluster, broker int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := register(ctx, c.Active().Loop(), broker); err != nil {
		t.Fatalf("register broker %d: %v", broker, err)
	}
}

func hasBroker(n *quorumtest.Node, broker int32) bool {
	_, ok := n.Image().Broker(broker)
	return ok
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestThreeNodesElectClaimAndCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		c.AwaitSame()
		for _, n := range c.Nodes {
			if !hasBroker(n, 1) {
				t.Errorf("%s has no broker 1", n.Name)
			}
		}
	})
}

// TestDeposedLeadersDecisionIsInvisible: what a leader decides while it is cut off never takes effect, and its caller is
// told so (I4, I21).
func TestDeposedLeadersDecisionIsInvisible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		old := c.Active()
		c.Isolate(old)
		lost, loop := make(chan error, 1), old.Loop()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			lost <- register(ctx, loop, 7)
		}()
		c.Await("another claim", func() bool { a := c.Active(); return a != nil && a != old && !old.Status().Active })
		mustRegister(t, c, 1)
		c.Heal(old)
		c.AwaitSame()
		if err := <-lost; err == nil {
			t.Error("a decision of the cut off leader was answered as done")
		}
		for _, n := range c.Nodes {
			if hasBroker(n, 7) || !hasBroker(n, 1) {
				t.Errorf("%s: broker 7 %t, broker 1 %t", n.Name, hasBroker(n, 7), hasBroker(n, 1))
			}
		}
	})
}

// TestLateProposalOfAnOldClaimIsDropped: an entry that was decided in an old claim and reaches the log under a new one
// changes nothing (I2, I21).
func TestLateProposalOfAnOldClaimIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		old := c.Active()
		late := lateEntry(t, old.Image())
		c.Isolate(old)
		c.Await("another claim", func() bool { a := c.Active(); return a != nil && a != old })
		c.Heal(old)
		c.AwaitSame()

		answer := <-c.Active().Propose(late, 5*time.Second)
		if answer.Err != nil || answer.Result.Outcome != fsm.Dropped {
			t.Fatalf("answer %+v, want dropped", answer)
		}
		c.Await("all have dropped it", func() bool {
			for _, n := range c.Nodes {
				if n.Dropped() == 0 {
					return false
				}
			}
			return true
		})
		mustRegister(t, c, 2)
		c.AwaitSame()
		if hasBroker(c.Active(), 7) {
			t.Error("the late entry took effect")
		}
	})
}

// lateEntry is an entry that registers broker 7, valid for the image at hand.
func lateEntry(t *testing.T, img *fsm.Image) []byte {
	t.Helper()
	epoch, claim, next := img.ControllerEpoch(), img.ClaimOffset(), img.NextOffset()
	entry, err := fsm.EncodeEnvelope(&metadatav1.Envelope{
		Format: 1, ClusterId: img.ClusterID(),
		Lineage:         &metadatav1.LineageID{Number: img.Lineage().ID.Number, Uuid: img.Lineage().ID.UUID.Bytes()},
		ControllerEpoch: &epoch, ClaimOffset: &claim, FirstMetadataOffset: &next,
		Batches: []*metadatav1.Batch{{
			RequestId: fsm.UUID{9}.Bytes(),
			Records: []*metadatav1.Record{{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
				BrokerId: 7, BrokerEpoch: next, IncarnationId: fsm.UUID{1, 7}.Bytes(), Fenced: true,
				Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
				Directories: [][]byte{fsm.UUID{2, 7}.Bytes()},
			}}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// TestLaggingNodeIsSentASnapshot: a follower whose next entry is compacted away gets the snapshot, and then equals the
// others (I1, I5).
func TestLaggingNodeIsSentASnapshot(t *testing.T) {
	for _, store := range []quorum.StoreKind{quorum.StoreBolt, quorum.StoreWAL} {
		t.Run(string(store), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumtest.New(t, 3, func(cfg *quorum.Config) { cfg.TrailingBytes, cfg.LogStore = 1, store })
				mustRegister(t, c, 1)
				c.AwaitSame()
				behind := c.Others(c.Active())[0]
				c.Isolate(behind)
				for broker := range int32(20) {
					mustRegister(t, c, 10+broker)
				}
				for _, n := range c.Others(behind) {
					if err := n.TakeSnapshot(); err != nil {
						t.Fatalf("%s: %v", n.Name, err)
					}
				}
				before := behind.Status().SnapshotIndex
				c.Heal(behind)
				c.AwaitSame()
				if got := behind.Status().SnapshotIndex; got <= before {
					t.Errorf("%s caught up without a snapshot: its last is at index %d", behind.Name, got)
				}
				mustRegister(t, c, 50)
				c.AwaitSame()
				restart(t, c, behind)
				mustRegister(t, c, 51)
				c.AwaitSame()
			})
		})
	}
}

func restart(t *testing.T, c *quorumtest.Cluster, n *quorumtest.Node) {
	t.Helper()
	c.Crash(n)
	c.Start(n)
}

func TestRestartedFollowerCatchesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		n := c.Others(c.Active())[0]
		c.Crash(n)
		mustRegister(t, c, 2)
		c.Start(n)
		c.AwaitSame()
		if !hasBroker(n, 1) || !hasBroker(n, 2) {
			t.Error("the restarted node lacks a broker")
		}
	})
}

// TestCrashedLeaderIsReplaced kills each leader in turn and starts it again.
func TestCrashedLeaderIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		for i := range int32(6) {
			leader := c.Active()
			c.Crash(leader)
			c.Await("another claim", func() bool { return c.Active() != nil })
			mustRegister(t, c, i)
			c.Start(leader)
			c.AwaitSame()
		}
	})
}

// TestWholeQuorumRestarts stops all and starts all: the same metadata, and a new claim.
func TestWholeQuorumRestarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		c.AwaitSame()
		epoch := c.Active().Image().ControllerEpoch()
		c.Stop()
		for _, n := range c.Nodes {
			c.Start(n)
		}
		c.AwaitSame()
		if got := c.Active().Image().ControllerEpoch(); got <= epoch {
			t.Errorf("controller epoch %d after the restart, %d before: it only grows (I6)", got, epoch)
		}
		if !hasBroker(c.Nodes[0], 1) {
			t.Error("broker 1 is gone")
		}
	})
}

// TestTerminatedLeaderHandsOver: on SIGTERM a leader gives leadership to a peer, faster than an election.
func TestTerminatedLeaderHandsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		c.AwaitSame()
		leader := c.Active()
		start := time.Now()
		if err := c.Terminate(leader); err != nil {
			t.Fatal(err)
		}
		c.Await("another claim", func() bool { return c.Active() != nil })
		if took := time.Since(start); took > 400*time.Millisecond {
			t.Errorf("a hand-over took %s; an election alone takes 500 ms", took)
		}
	})
}

func TestTerminatedSingleVoterEndsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 1, nil)
		start := time.Now()
		if err := c.Terminate(c.Nodes[0]); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %s", took)
		}
		c.Start(c.Nodes[0])
		c.Await("a claim", func() bool { return c.Active() != nil })
	})
}

// TestEveryCallerIsAnsweredAtShutdown: with 64 callers in flight the node stops; every call returns by its deadline.
func TestEveryCallerIsAnsweredAtShutdown(t *testing.T) {
	const rounds, callers, deadline = 20, 64, 5 * time.Second
	for round := range rounds {
		bubble(t, func(t *testing.T) {
			disk := &quorum.Disk{} // without a delay virtual time would stand still while all is going well
			disk.Slow(time.Millisecond)
			c := quorumtest.New(t, 1+2*(round%2), disk.Under)
			leader := c.Active()
			late, loop := make(chan time.Duration, callers), leader.Loop()
			start := time.Now()
			for i := range int32(callers) {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), deadline)
					defer cancel()
					for b := i; ctx.Err() == nil; b += callers {
						if err := register(ctx, loop, b); err != nil {
							break
						}
					}
					late <- time.Since(start)
				}()
			}
			time.Sleep(time.Duration(round) * time.Millisecond)
			if round%4 < 2 {
				c.Crash(leader)
			} else if err := c.Terminate(leader); err != nil {
				t.Error(err)
			}
			for range callers {
				if took := <-late; took > deadline {
					t.Errorf("round %d: a caller waited %s", round, took)
				}
			}
		})
	}
}

// TestEveryProposalIsAnsweredAtShutdown is the same one floor lower, where Raft's own futures would hang for ever.
func TestEveryProposalIsAnsweredAtShutdown(t *testing.T) {
	const rounds, proposals = 20, 64
	for round := range rounds {
		bubble(t, func(t *testing.T) {
			c := quorumtest.New(t, 1, nil)
			leader := c.Active()
			entry := lateEntry(t, leader.Image())
			answers := make([]<-chan active.Answer, proposals)
			for i := range answers {
				answers[i] = leader.Propose(entry, 5*time.Second)
			}
			if round%2 == 0 {
				time.Sleep(time.Duration(round) * 100 * time.Microsecond)
			}
			c.Crash(leader)
			start := time.Now()
			for _, a := range answers {
				<-a
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("round %d: an answer came %s after the node had stopped", round, took)
			}
		})
	}
}

// TestFailedWriteStopsTheNode: after a failed write nothing is written any more, and the process ends with 70.
func TestFailedWriteStopsTheNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disks := map[int32]*quorum.Disk{}
		c := quorumtest.New(t, 3, func(cfg *quorum.Config) {
			disks[cfg.NodeID] = &quorum.Disk{}
			disks[cfg.NodeID].Under(cfg)
		})
		leader := c.Active()
		c.AwaitSame()
		disks[leader.ID].Fail(errors.New("no space left on device"))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := register(ctx, leader.Loop(), 1); err == nil {
			t.Error("a decision that was not written was answered as done")
		}
		var stop *quorum.StopError
		if err := c.Ended(leader); !errors.As(err, &stop) || stop.Code != quorum.ExitBroken {
			t.Fatalf("ended with %v, want exit code 70", err)
		}
		c.Await("another claim", func() bool { return c.Active() != nil })
		c.Start(leader)
		mustRegister(t, c, 2)
		c.AwaitSame()
	})
}

// TestPoisonEntryEndsTheLeaderAndFreezesAFollower: an entry that passes the guard and does not fold (I3).
func TestPoisonEntryEndsTheLeaderAndFreezesAFollower(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		c.AwaitSame()
		leader := c.Active()
		img := leader.Image()
		epoch, claim, next := img.ControllerEpoch(), img.ClaimOffset(), img.NextOffset()
		poison, err := fsm.EncodeEnvelope(&metadatav1.Envelope{
			Format: 1, ClusterId: img.ClusterID(),
			Lineage:         &metadatav1.LineageID{Number: img.Lineage().ID.Number, Uuid: img.Lineage().ID.UUID.Bytes()},
			ControllerEpoch: &epoch, ClaimOffset: &claim, FirstMetadataOffset: &next,
			Batches: []*metadatav1.Batch{{RequestId: idOf(9, 9).Bytes(), Records: []*metadatav1.Record{{
				Kind: &metadatav1.Record_RemoveTopic{RemoveTopic: &metadatav1.RemoveTopic{TopicId: idOf(8, 8).Bytes()}},
			}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		others := c.Others(leader)
		if a := <-leader.Propose(poison, 5*time.Second); a.Err == nil && a.Result.Outcome != fsm.Broken {
			t.Fatalf("%+v", a)
		}
		var stop *quorum.StopError
		if err := c.Ended(leader); !errors.As(err, &stop) || stop.Code != quorum.ExitBroken {
			t.Errorf("the leader ended with %v, want exit code 70", err)
		}
		var nodes []*quorum.Node
		for _, n := range others {
			nodes = append(nodes, n.Node)
		}
		c.Await("a frozen follower", func() bool {
			return slices.ContainsFunc(nodes, func(n *quorum.Node) bool { s := n.Status(); return s.Frozen != "" && !s.Ready })
		})
		for _, n := range nodes {
			if got := n.Image().NextOffset(); got != next {
				t.Errorf("an image went on to %d", got)
			}
		}
		frozenNodesSaveNothing(t, c, others)
		diskIsReadUpTo(t, leader.Dir, img)
	})
}

// TestLogThatDisagreesWithTheSnapshotIsRemoved: a deposed leader wrote entries that were never committed; when the
// others' log no longer reaches back to where they differ, it is sent a snapshot, and Raft alone would never agree.
func TestLogThatDisagreesWithTheSnapshotIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, func(cfg *quorum.Config) { cfg.TrailingBytes = 1 })
		history := c.Watch()
		mustRegister(t, c, 1)
		c.AwaitSame()
		old := c.Active()
		c.Isolate(old)
		late := lateEntry(t, old.Image())
		var answers []<-chan active.Answer
		for range 30 {
			answers = append(answers, old.Propose(late, 20*time.Second))
		}
		c.Await("another claim", func() bool { a := c.Active(); return a != nil && a != old && !old.Status().Active })
		for broker := range int32(10) {
			mustRegister(t, c, 10+broker)
		}
		for _, n := range c.Others(old) {
			if err := n.TakeSnapshot(); err != nil {
				t.Fatal(err)
			}
		}
		c.Heal(old)
		var stop *quorum.StopError
		if err := c.Ended(old); !errors.As(err, &stop) || stop.Code != quorum.ExitBroken {
			t.Fatalf("ended with %v, want exit code 70", err)
		}
		for _, a := range answers {
			<-a
		}
		c.Start(old)
		mustRegister(t, c, 40)
		c.Settle(history)
		if hasBroker(old, 7) {
			t.Error("an entry that was never committed took effect")
		}
	})
}

// TestSnapshotsAreTakenByBytes: after so many bytes of log, whatever is in it.
func TestSnapshotsAreTakenByBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, func(cfg *quorum.Config) { cfg.SnapshotBytes, cfg.TrailingBytes = 4000, 1 })
		for broker := range int32(40) {
			mustRegister(t, c, broker)
		}
		c.Await("a snapshot on every node", func() bool {
			return !slices.ContainsFunc(c.Nodes, func(n *quorumtest.Node) bool { return n.Status().SnapshotIndex <= 1 })
		})
		for _, n := range c.Nodes {
			restart(t, c, n)
			c.AwaitSame()
		}
		if !hasBroker(c.Nodes[0], 39) {
			t.Error("broker 39 is gone")
		}
	})
}

// TestSnapshotsAreTakenByAgeOnlyIfTheMetadataMoved: an idle quorum writes none.
func TestSnapshotsAreTakenByAgeOnlyIfTheMetadataMoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const interval = 30 * time.Second
		c := quorumtest.New(t, 1, func(cfg *quorum.Config) { cfg.SnapshotInterval = interval })
		n := c.Nodes[0]
		mustRegister(t, c, 1)
		c.Await("the first snapshot", func() bool { return n.Status().SnapshotIndex > 1 })
		first := n.Status().SnapshotIndex
		time.Sleep(4 * interval)
		if got := n.Status().SnapshotIndex; got != first {
			t.Errorf("an idle node took a snapshot at index %d after that at %d", got, first)
		}
		mustRegister(t, c, 2)
		c.Await("the next snapshot", func() bool { return n.Status().SnapshotIndex > first })
	})
}

// TestNodeThatLostWhatItAcknowledgedIsKeptOut: a directory from an older backup forgets entries that count as
// committed; with its vote a leader without them could be elected.
func TestNodeThatLostWhatItAcknowledgedIsKeptOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		c.AwaitSame()
		leader := c.Active()
		old := c.Others(leader)[0]
		c.Crash(old)
		backup := filepath.Join(t.TempDir(), "backup")
		if err := os.CopyFS(backup, os.DirFS(old.Dir)); err != nil {
			t.Fatal(err)
		}
		c.Start(old)
		for broker := range int32(10) {
			mustRegister(t, c, 10+broker)
		}
		c.AwaitSame()
		if c.Active() != leader {
			t.Skip("the leader that remembers is not the leader any more")
		}
		c.Crash(old)
		if err := errors.Join(os.RemoveAll(old.Dir), os.CopyFS(old.Dir, os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
		c.Start(old)
		c.Await("the refusal", func() bool { return strings.Contains(old.Status().NotReady, "quorum rejoin") })
		if hasBroker(old, 15) || c.Active() != leader {
			t.Errorf("the node was taken in (%t), or disturbed the leader (%t)", hasBroker(old, 15), c.Active() != leader)
		}
		mustRegister(t, c, 30)
	})
}

// TestTermThatCannotBeWrittenEndsTheNode: hashicorp/raft would panic; the process must end with one line and 70.
func TestTermThatCannotBeWrittenEndsTheNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disks := map[int32]*quorum.Disk{}
		c := quorumtest.New(t, 3, func(cfg *quorum.Config) {
			disks[cfg.NodeID] = &quorum.Disk{}
			disks[cfg.NodeID].Under(cfg)
		})
		c.AwaitSame()
		leader := c.Active()
		followers := c.Others(leader)
		for _, n := range followers {
			disks[n.ID].Fail(errors.New("no space left on device"))
		}
		c.Crash(leader)
		ended := 0
		for _, n := range followers {
			select {
			case err := <-n.Done():
				var stop *quorum.StopError
				if !errors.As(err, &stop) || stop.Code != quorum.ExitBroken {
					t.Errorf("%s ended with %v, want exit code 70", n.Name, err)
				}
				ended++
			case <-time.After(10 * time.Second):
			}
		}
		if ended == 0 {
			t.Error("nobody ended, and nobody can write a term")
		}
	})
}
