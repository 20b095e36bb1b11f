package endtoend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// What the session of a local cluster grants, and a span that is longer than it, its eighth, and all that follows.
const (
	localSession   = 3 * time.Second
	afterTheirTime = 2 * localSession
)

// span lets time pass: how long something lasts is what these tests are about.
func span(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// leaderEpochs are the leader epochs of a topic's partitions. Each broker leads some of them, and fencing a broker moves
// what it leads, so equal epochs say that nobody was fenced in between.
func leaderEpochs(t *testing.T, c *proctest.Cluster, topic string) map[int32]int32 {
	t.Helper()
	epochs := map[int32]int32{}
	leaders := map[int32]bool{}
	admin := adminClient(t, c.BootstrapServers()...)
	proctest.Eventually(t, patience, "the partitions are told", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		detail, err := topicDetail(ctx, admin, topic)
		if err != nil {
			return err
		}
		for _, p := range detail.Partitions {
			epochs[p.Partition] = p.LeaderEpoch
			leaders[p.Leader] = true
		}
		return nil
	})
	if len(leaders) != 3 {
		t.Fatalf("the partitions are led by %v: the test proves nothing", leaders)
	}
	return epochs
}

// wantNobodyFenced compares the epochs after everything has had the time to go wrong.
func wantNobodyFenced(t *testing.T, c *proctest.Cluster, topic string, before map[int32]int32) {
	t.Helper()
	c.AwaitAgreement(patience)
	if after := leaderEpochs(t, c, topic); !maps.Equal(before, after) {
		t.Errorf("leader epochs were %v and are %v: a broker that lived was fenced", before, after)
	}
}

// TestPausedControllerFencesNobody: brokers whose heartbeats nobody could read have not been silent. One controller is
// paused for less than an election takes, then until another leads; and the only controller of a cluster for longer than
// a session.
func TestPausedControllerFencesNobody(t *testing.T) {
	t.Parallel()
	const topic = "unfenced"
	t.Run("one of three", func(t *testing.T) {
		t.Parallel()
		c := proctest.Start(t, proctest.Options{})
		createTopic(t, c, topic, 6, 3)
		awaitFullISR(t, c, topic)
		before := leaderEpochs(t, c, topic)
		first := c.ActiveController()
		c.Pause(first)
		span(t, 300*time.Millisecond)
		c.Resume(first)
		wantNobodyFenced(t, c, topic, before)

		first = c.ActiveController()
		c.Pause(first)
		if c.ActiveController() == first {
			t.Fatalf("%s is active though it is paused", first)
		}
		span(t, afterTheirTime)
		c.Resume(first)
		c.AwaitReady(first)
		wantNobodyFenced(t, c, topic, before)
	})
	t.Run("the only one", func(t *testing.T) {
		t.Parallel()
		c := proctest.Start(t, proctest.Options{Controllers: 1})
		createTopic(t, c, topic, 6, 3)
		awaitFullISR(t, c, topic)
		before := leaderEpochs(t, c, topic)
		only := c.ActiveController()
		c.Pause(only)
		span(t, afterTheirTime)
		c.Resume(only)
		span(t, localSession)
		wantNobodyFenced(t, c, topic, before)
	})
}

// slowDisk makes every sync of a process take longer until the test ends, or the function that it returns is called.
// It skips the test where processes cannot be traced.
func slowDisk(t *testing.T, pid int, delay time.Duration) (end func()) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("SKIFF_CI") != "" {
			t.Fatal("strace is not installed, and SKIFF_CI asks for it")
		}
		t.Skip("strace is not installed")
	}
	calls := "fsync,fdatasync"
	cmd := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "-p", strconv.Itoa(pid), "-e", "trace="+calls,
		"-e", fmt.Sprintf("inject=%s:delay_enter=%d", calls, delay.Microseconds()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait() //nolint:errcheck // it is interrupted, or its process ends
	}()
	end = func() {
		cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
		<-ended
	}
	t.Cleanup(end)
	proctest.Eventually(t, patience, "the process is traced", func() error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return err
		}
		if strings.Contains(string(status), "TracerPid:\t0\n") {
			return errors.New("nobody traces it")
		}
		return nil
	})
	return end
}

// TestSlowDiskUnderTheQuorumFencesNobody: three nodes share one disk, each of whose syncs takes a fifth of a second,
// while topics are created for longer than a session. Such a disk may cost a controller its lease: then a caller is
// told that the outcome is unknown, which is the truth, and asks again.
func TestSlowDiskUnderTheQuorumFencesNobody(t *testing.T) {
	const topic = "unfenced"
	c := proctest.Start(t, proctest.Options{})
	createTopic(t, c, topic, 6, 3)
	awaitFullISR(t, c, topic)
	before := leaderEpochs(t, c, topic)
	for _, n := range c.Nodes() {
		if n.Role == up.Quorum {
			defer slowDisk(t, n.PID, 200*time.Millisecond)()
		}
	}
	created := 0
	for deadline := time.Now().Add(afterTheirTime); time.Now().Before(deadline); created++ {
		createNext(t, c, fmt.Sprintf("slow-%d", created), 3)
	}
	t.Logf("%d topics in %s", created, afterTheirTime)
	wantNobodyFenced(t, c, topic, before)
}

// createNext creates topics until one is created, and returns its name: who asked a controller that ended, was paused or lost
// its lease is told that the outcome is unknown.
func createNext(t *testing.T, c *proctest.Cluster, prefix string, replicas int16) (name string) {
	t.Helper()
	admin, asked := adminClient(t, c.BootstrapServers()...), 0
	proctest.Eventually(t, patience, "a topic is created", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		asked++
		name = fmt.Sprintf("%s-%d", prefix, asked)
		_, err := admin.CreateTopic(ctx, 1, replicas, nil, name)
		return err
	})
	return name
}

// TestControllerWhoseDiskHangsIsReplaced: the watchdog ends it, the others take over, and no broker is fenced.
func TestControllerWhoseDiskHangsIsReplaced(t *testing.T) {
	t.Parallel()
	const topic = "unfenced"
	c := proctest.Start(t, proctest.Options{})
	createTopic(t, c, topic, 6, 3)
	awaitFullISR(t, c, topic)
	before := leaderEpochs(t, c, topic)
	first := c.ActiveController()
	start := time.Now()
	end := slowDisk(t, c.Node(first).PID, 4*localSession)
	createNext(t, c, "meanwhile", 3)
	t.Logf("the next topic was created %s after the disk hung", time.Since(start).Round(time.Millisecond))
	if second := c.ActiveController(); second == first {
		t.Errorf("%s is still active", first)
	}
	proctest.Eventually(t, patience, first+" has ended", func() error {
		if n := c.Node(first); n.State == up.Running {
			return errors.New("it runs")
		}
		return nil
	})
	end()
	log, err := os.ReadFile(c.Node(first).Log)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"the raft store does not answer", "has not returned for 20 ticks", "goroutine ", "exit-code=70"} {
		if !strings.Contains(string(log), words) {
			t.Errorf("its log does not say %q", words)
		}
	}
	c.Restart(first)
	wantNobodyFenced(t, c, topic, before)
}
