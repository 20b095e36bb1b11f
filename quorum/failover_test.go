package quorum_test

import (
	"context"
	"testing"
	"time"

	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// electionTimeout is the least time in which a follower finds by silence that its leader is gone.
const electionTimeout = 500 * time.Millisecond

// TestKilledLeaderIsReplacedBeforeATimeout: the followers see its connections end and its port refuse. The first of them
// in the order of ids stands for election; the metadata goes on in far less than an election timeout.
func TestKilledLeaderIsReplacedBeforeATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		for round := range int32(9) {
			c.AwaitSame()
			leader := c.Active()
			want := c.Others(leader)[0]
			term, start := leader.Status().Term, time.Now()
			c.Crash(leader)
			c.Await("another claim", func() bool { return c.Active() != nil })
			mustRegister(t, c, round)
			if took := time.Since(start); took >= electionTimeout/2 {
				t.Errorf("round %d: it took %s", round, took)
			}
			if got := c.Active(); got != want || got.Status().Term != term+1 {
				t.Errorf("round %d: %s leads in term %d, want %s in term %d", round, got.Name, got.Status().Term, want.Name, term+1)
			}
			c.Start(leader)
		}
	})
}

// TestSecondTakesOverWhenTheFirstIsBehind: the first in the order lacks an entry, so it cannot win; the second refuses
// it and takes over at its own turn, though the term has grown.
func TestSecondTakesOverWhenTheFirstIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		c.AwaitSame()
		leader := c.Active()
		first, second := c.Others(leader)[0], c.Others(leader)[1]
		c.Net.Cut(leader.Name, first.Name)
		mustRegister(t, c, 2)
		start := time.Now()
		c.Crash(leader)
		c.Net.Heal(leader.Name, first.Name)
		if a, b := first.Status().LastIndex, second.Status().LastIndex; a >= b {
			t.Fatalf("the first is not behind: %d of %d", a, b)
		}
		c.Await("another claim", func() bool { return c.Active() != nil })
		if took := time.Since(start); took >= electionTimeout/2 {
			t.Errorf("it took %s", took)
		}
		if got := c.Active(); got != second {
			t.Errorf("%s leads, want %s", got.Name, second.Name)
		}
		if !hasBroker(c.Active(), 2) {
			t.Error("what was acknowledged is gone")
		}
		c.Start(leader)
		c.AwaitSame()
	})
}

// TestSecondTakesOverWhenTheFirstIsBehindAndQuicker: the first asks for votes before the second has learned that the
// leader is gone. The second refuses it, so the term has grown before its suspicion begins.
func TestSecondTakesOverWhenTheFirstIsBehindAndQuicker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		c.AwaitSame()
		leader := c.Active()
		first, second := c.Others(leader)[0], c.Others(leader)[1]
		c.Net.Cut(leader.Name, first.Name)
		mustRegister(t, c, 2)
		term, start := second.Status().Term, time.Now()
		c.Net.Cut(leader.Name, second.Name)
		c.Net.KillSeenBy(leader.Name, first.Name)
		c.Net.Heal(leader.Name, first.Name)
		c.Await("the refusal", func() bool { return second.Status().Term > term })
		c.Crash(leader)
		c.Net.Heal(leader.Name, second.Name)
		c.Await("another claim", func() bool { return c.Active() != nil })
		if took := time.Since(start); took >= electionTimeout/2 {
			t.Errorf("it took %s", took)
		}
		if got := c.Active(); got != second || !hasBroker(got, 2) {
			t.Errorf("%s leads, want %s with what was acknowledged", got.Name, second.Name)
		}
	})
}

// TestNextTakesOverWhenTheFirstIsDeadToo: of five voters the leader dies when the first of the others is dead already.
func TestNextTakesOverWhenTheFirstIsDeadToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 5, nil)
		c.AwaitSame()
		leader := c.Active()
		c.Crash(c.Others(leader)[0])
		start := time.Now()
		c.Crash(leader)
		c.Await("another claim", func() bool { return c.Active() != nil })
		if took := time.Since(start); took >= electionTimeout/2 {
			t.Errorf("it took %s; nobody waits for the turn of one who is gone", took)
		}
	})
}

// TestLostConnectionAloneElectsNobody: while the leader's port can be dialed, or is silent, its connections may end as
// they like.
func TestLostConnectionAloneElectsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		c.AwaitSame()
		leader := c.Active()
		term := leader.Status().Term
		for range 20 {
			c.Net.Reset(leader.Name)
			time.Sleep(100 * time.Millisecond)
		}
		c.Isolate(leader)
		c.Net.Reset(leader.Name)
		time.Sleep(electionTimeout / 2)
		c.Heal(leader)
		time.Sleep(5 * time.Second)
		if c.Active() != leader || leader.Status().Term != term {
			t.Errorf("the leader was replaced:\n%s", c.Describe())
		}
	})
}

// TestOrderlyStopDisturbsNobody: a leader that hands over, and a follower that stops, cost exactly the term of the
// hand-over and none.
func TestOrderlyStopDisturbsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		for range 10 {
			c.AwaitSame()
			leader := c.Active()
			term := leader.Status().Term
			if err := c.Terminate(leader); err != nil {
				t.Fatal(err)
			}
			c.Await("another claim", func() bool { return c.Active() != nil })
			time.Sleep(2 * time.Second)
			if got := c.Active().Status().Term; got != term+1 {
				t.Errorf("term %d after a hand-over in term %d", got, term)
			}
			c.Start(leader)
			c.AwaitSame()
			follower := c.Others(c.Active())[0]
			if err := c.Terminate(follower); err != nil {
				t.Fatal(err)
			}
			c.Start(follower)
			c.AwaitSame()
			if got := c.Active().Status().Term; got != term+1 {
				t.Errorf("term %d after a follower's stop in term %d", got, term+1)
			}
		}
	})
}

// TestCallersOfAKilledLeaderAreAnsweredTheTruth: what the killed leader answered as done is in the metadata of the next.
func TestCallersOfAKilledLeaderAreAnsweredTheTruth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := &quorum.Disk{} // without a delay virtual time would stand still while all is going well
		disk.Slow(time.Millisecond)
		c := quorumtest.New(t, 3, disk.Under)
		next := int32(1)
		for range 10 {
			c.AwaitSame()
			leader := c.Active()
			done := make(chan int32, 1)
			go func(loop *active.Loop, broker int32) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				for ; register(ctx, loop, broker) == nil; broker++ {
				}
				done <- broker
			}(leader.Loop(), next)
			time.Sleep(5 * time.Millisecond)
			c.Crash(leader)
			last := <-done
			c.Await("another claim", func() bool { return c.Active() != nil })
			for broker := next; broker < last; broker++ {
				if !hasBroker(c.Active(), broker) {
					t.Errorf("broker %d was acknowledged and is gone", broker)
				}
			}
			next = last + 1
			c.Start(leader)
		}
	})
}
