package quorum

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/controller"
)

var everyWrite = flag.Bool("vote.every", false, "kill at every write of a vote, not only at some")

// nodeVariable makes the test binary a node: id, directory and address, separated by semicolons.
const nodeVariable = "SKIFF_TEST_NODE"

func TestMain(m *testing.M) {
	if spec := os.Getenv(nodeVariable); spec != "" {
		fmt.Fprintln(os.Stderr, "the node ended:", runNode(spec))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runNode is a process that is one node, until it is killed or its parent is gone.
func runNode(spec string) error {
	part := strings.Split(spec, ";")
	id, err := strconv.Atoi(part[0])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", part[2])
	if err != nil {
		return err
	}
	node, err := Open(Config{
		NodeID: int32(id), DataDir: part[1], Advertised: Endpoint{Host: "127.0.0.1"}, Defaults: controller.KafkaDefaults(),
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr}),
	}, listener)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = os.Stdin.Read(make([]byte, 1)) // it ends with the parent
	}()
	return node.Run(ctx)
}

// voter is one node as a process.
type voter struct {
	id        int32
	dir, addr string
	cmd       *exec.Cmd
	ended     chan struct{}
}

// voters are a quorum of processes, and what is known of their votes.
type voters struct {
	t     *testing.T
	nodes []*voter
	// cast are the votes that were found, by voter and term.
	cast map[string]string
}

func startVoters(t *testing.T) *voters {
	v, dir := &voters{t: t, cast: map[string]string{}}, t.TempDir()
	t.Cleanup(func() {
		for _, n := range v.nodes {
			v.kill(n)
		}
	})
	var plan []bootstrap.Voter
	for id := int32(101); id <= 103; id++ {
		n := &voter{id: id, dir: filepath.Join(dir, fmt.Sprint(id)), addr: freeAddress(t)}
		v.nodes = append(v.nodes, n)
		v.start(n)
		plan = append(plan, bootstrap.Voter{NodeID: id, Address: n.addr})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v.await("init", func() bool { _, err := bootstrap.Init(ctx, plan, bootstrap.Options{}); return err == nil })
	return v
}

// freeAddress is a port that nobody uses. The node that is given it keeps it when it starts again.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (n *voter) logFile() string { return n.dir + ".log" }

func (v *voters) start(n *voter) {
	v.t.Helper()
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		v.t.Fatal(err)
	}
	defer log.Close()
	n.cmd = exec.Command(os.Args[0]) //nolint:gosec // the test binary itself
	n.cmd.Env = append(os.Environ(), nodeVariable+"="+fmt.Sprintf("%d;%s;%s", n.id, n.dir, n.addr))
	n.cmd.Stderr = log
	if _, err := n.cmd.StdinPipe(); err != nil {
		v.t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	cmd, ended := n.cmd, make(chan struct{})
	n.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it was killed
	}()
}

func (v *voters) kill(n *voter) {
	_ = n.cmd.Process.Kill() // it may be gone already
	<-n.ended
}

func (v *voters) await(what string, ok func() bool) {
	v.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			v.t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// leader waits until one decides and the others follow it, and gives it.
func (v *voters) leader() *voter {
	v.t.Helper()
	var leader *voter
	v.await("a leader with two followers", func() bool {
		leader = nil
		followers := 0
		for _, n := range v.nodes {
			switch s := n.status(v.t.Context()); {
			case s.GetActive():
				leader = n
			case s.GetReady() && s.GetActiveController() != "":
				followers++
			}
		}
		return leader != nil && followers == 2
	})
	return leader
}

func (n *voter) status(ctx context.Context) *quorumv1.StatusResponse {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+n.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil
	}
	defer conn.Close()
	s, err := quorumv1.NewQuorumServiceClient(conn).Status(ctx, &quorumv1.StatusRequest{})
	if err != nil {
		return nil
	}
	return s
}

// killAt has strace kill a node as it enters its nth such call, counted for each thread, and returns when strace is at it.
func (v *voters) killAt(n *voter, call string, nth int) (stop func()) {
	v.t.Helper()
	var said bytes.Buffer
	pid := n.cmd.Process.Pid
	strace := exec.Command("strace", "-f", "-o", os.DevNull, "-p", strconv.Itoa(pid), "-e", "trace="+call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, nth))
	strace.Stderr = &said
	if err := strace.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.await("strace", func() bool { return traced(pid) })
	return func() {
		_ = strace.Process.Signal(os.Interrupt) // it may have ended with what it traced
		_ = strace.Wait()
	}
}

// traced tells whether every thread of a process is traced.
func traced(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err == nil && bytes.Contains(status, []byte("TracerPid:\t0\n")) {
			return false
		}
	}
	return true
}

// TestVoteIsWholeWhereverItsProcessIsKilled kills a node at its nth write or sync while it votes, for itself or for
// another, and reads its store then: the vote is one that was cast, for a candidate of just that term, and a vote that was
// found once is never another. Each time the node starts again and the quorum goes on.
func TestVoteIsWholeWhereverItsProcessIsKilled(t *testing.T) {
	if err := exec.Command("strace", "-qq", "-o", os.DevNull, "-e", "trace=none", "true").Run(); err != nil {
		if os.Getenv("SKIFF_CI") != "" {
			t.Fatalf("strace cannot trace here: %v", err)
		}
		t.Skipf("strace cannot trace here: %v", err)
	}
	writes := []int{3}
	if *everyWrite {
		writes = []int{1, 2, 3, 4, 5, 6, 7, 8}
	}
	v := startVoters(t)
	killed := 0
	for _, call := range []string{"pwrite64", "fdatasync"} {
		for _, nth := range writes {
			for _, candidate := range []bool{true, false} {
				if v.killWhileVoting(call, nth, candidate) {
					killed++
				}
			}
		}
	}
	t.Logf("%d kills while a node voted; %d votes were found", killed, len(v.cast))
	if killed == 0 || len(v.cast) == 0 {
		t.Error("nobody was killed, or nobody had voted")
	}
}

// killWhileVoting kills the leader, and one of the others at the nth call of what follows: the one that is to stand for
// election, or the one that is to vote for it. It returns false when the node did not come to that call.
func (v *voters) killWhileVoting(call string, nth int, candidate bool) bool {
	v.t.Helper()
	leader := v.leader()
	var others []*voter
	for _, n := range v.nodes {
		if n != leader {
			others = append(others, n)
		}
	}
	victim := others[1]
	if candidate {
		victim = others[0]
	}
	stop := v.killAt(victim, call, nth)
	v.kill(leader)
	gone := false
	select {
	case <-victim.ended:
		gone = true
	case <-time.After(time.Second): // it has voted without coming to the call
	}
	stop()
	v.kill(victim)
	v.judge(leader)
	v.judge(victim)
	v.start(leader)
	v.start(victim)
	return gone
}

// judge reads the store of a node that was killed.
func (v *voters) judge(n *voter) {
	v.t.Helper()
	b, err := readBallot(n.dir)
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.check(fmt.Sprint(n.id), b, v.stood); err != nil {
		v.t.Errorf("node %d: %v", n.id, err)
	}
}

// ballot is what a stable store says of a node's term and vote.
type ballot struct {
	current   uint64 // the node's term
	term      uint64 // of its vote, 0 if it never voted
	candidate string
}

func readBallot(dir string) (b ballot, err error) {
	store, err := raftboltdb.New(raftboltdb.Options{
		Path:        enginePath(StoreBolt, filepath.Join(dir, raftDirName)),
		BoltOptions: &bbolt.Options{Timeout: boltLockTimeout, ReadOnly: true},
	})
	if err != nil {
		return b, err
	}
	defer store.Close()
	if b.current, err = store.GetUint64(keyCurrentTerm); err != nil {
		return b, err
	}
	vote, err := store.Get(voteKey)
	if isNotFound(err) {
		return b, nil
	}
	if err == nil && len(vote) < 8 {
		err = fmt.Errorf("a vote of %d bytes", len(vote))
	}
	if err != nil {
		return b, err
	}
	b.term, b.candidate = binary.BigEndian.Uint64(vote), string(vote[8:])
	return b, nil
}

// check compares a ballot with what is known: who stood in which term, and what the node was found to have voted before.
func (v *voters) check(voter string, b ballot, stood func(candidate string, term uint64) bool) error {
	if b.term == 0 {
		return nil
	}
	key := fmt.Sprintf("%s in term %d", voter, b.term)
	before, known := v.cast[key]
	v.cast[key] = b.candidate
	switch {
	case b.term > b.current:
		return fmt.Errorf("a vote in term %d in a store of term %d", b.term, b.current)
	case known && before != b.candidate:
		return fmt.Errorf("the vote in term %d was for %s, and is for %s", b.term, before, b.candidate)
	case !stood(b.candidate, b.term):
		return fmt.Errorf("the vote in term %d is for %s, who did not stand: its log was not looked at", b.term, b.candidate)
	}
	return nil
}

// stood tells whether a candidate has said that it stands in a term, which it does before it writes its own vote.
func (v *voters) stood(candidate string, term uint64) bool {
	said := regexp.MustCompile(fmt.Sprintf(`voting for self: term=%d id=%s\b`, term, regexp.QuoteMeta(candidate)))
	for _, n := range v.nodes {
		log, err := os.ReadFile(n.logFile())
		if err != nil {
			v.t.Fatal(err)
		}
		if said.Match(log) {
			return true
		}
	}
	return false
}

// TestDoctoredBallotsAreFound: each of the three things that a ballot may have wrong.
func TestDoctoredBallotsAreFound(t *testing.T) {
	stood := func(candidate string, term uint64) bool {
		return candidate == "a" && term == 5 || candidate == "b" && term == 6
	}
	cases := map[string]struct {
		ballots []ballot
		wrong   bool // the last of them
	}{
		"never voted":                          {[]ballot{{current: 4}}, false},
		"for one who stood":                    {[]ballot{{5, 5, "a"}, {6, 5, "a"}, {6, 6, "b"}}, false},
		"the term of one, the name of another": {[]ballot{{5, 5, "a"}, {6, 6, "a"}}, true},
		"ahead of its own term":                {[]ballot{{4, 5, "a"}}, true},
		"changed within a term":                {[]ballot{{5, 5, "b"}, {5, 5, "a"}}, true},
	}
	for name, c := range cases {
		v := &voters{t: t, cast: map[string]string{}}
		var err error
		for _, b := range c.ballots {
			err = v.check("101", b, stood)
		}
		if (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
