package quorumcmd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/quorumcmd"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/transport"
)

// asQuorumd makes this test binary be quorumd.
const asQuorumd = "SKIFF_TEST_AS_QUORUMD"

func TestMain(m *testing.M) {
	if os.Getenv(asQuorumd) != "" {
		os.Unsetenv(asQuorumd)
		os.Exit(config.Report(os.Stderr, "quorumd", quorumcmd.Command().Execute()))
	}
	os.Exit(m.Run())
}

// patience bounds every wait.
const patience = 30 * time.Second

// process is one quorumd.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	id    int
	dir   string
	addr  string // of the quorum's port
	admin string
	ended chan struct{}

	mu    sync.Mutex
	lines []string // of stderr; guarded by mu
}

// launch starts quorumd and does not wait for it.
func launch(t *testing.T, id int, dir, listen string, more ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--node-id", fmt.Sprint(id), "--data", dir, "--listeners", "CONTROLLER://" + listen, "--admin", "127.0.0.1:0", "--log-format", "json"}, more...)
	p := &process{t: t, cmd: exec.Command(self, args...), id: id, dir: dir, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asQuorumd+"=1")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	go p.read(bufio.NewScanner(stderr))
	return p
}

func (p *process) read(lines *bufio.Scanner) {
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
	}
	p.cmd.Wait() //nolint:errcheck // the exit code is asked for
	close(p.ended)
}

// run starts quorumd and waits until it listens.
func run(t *testing.T, id int, dir, listen string, more ...string) *process {
	t.Helper()
	p := launch(t, id, dir, listen, more...)
	p.await("its start", func() bool {
		line := p.find("quorumd runs")
		var fields struct {
			Address string `json:"address"`
			Admin   string `json:"admin"`
		}
		if line == "" || json.Unmarshal([]byte(line), &fields) != nil {
			return false
		}
		p.addr, p.admin = fields.Address, fields.Admin
		return true
	})
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-p.ended
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exitCode waits for the end.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("quorumd %d does not end:\n%s", p.id, p.log())
		return -1
	}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *process) find(words string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if strings.Contains(l, words) {
			return l
		}
	}
	return ""
}

func (p *process) await(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		select {
		case <-p.ended:
			if !ok() {
				p.t.Fatalf("quorumd %d ended before %s:\n%s", p.id, what, p.log())
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("quorumd %d: waited in vain for %s:\n%s", p.id, what, p.log())
		}
	}
}

func (p *process) status() (s admin.Status) {
	resp, err := http.Get("http://" + p.admin + "/status")
	if err != nil {
		return s
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&s) != nil || s.QuorumStatus == nil {
		return admin.Status{QuorumStatus: &admin.QuorumStatus{}}
	}
	return s
}

func (p *process) awaitReady() {
	p.t.Helper()
	p.await("being ready", func() bool { return p.status().Ready })
}

func voters(ps ...*process) []bootstrap.Voter {
	var out []bootstrap.Voter
	for _, p := range ps {
		out = append(out, bootstrap.Voter{NodeID: int32(p.id), Address: p.addr})
	}
	return out
}

func initQuorum(t *testing.T, ps ...*process) bootstrap.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := bootstrap.Init(ctx, voters(ps...), bootstrap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		p.awaitReady()
	}
	return result
}

func startThree(t *testing.T) []*process {
	t.Helper()
	var ps []*process
	for id := 101; id <= 103; id++ {
		ps = append(ps, run(t, id, filepath.Join(t.TempDir(), fmt.Sprint(id)), "127.0.0.1:0"))
	}
	initQuorum(t, ps...)
	return ps
}

// wantEnd wants an exit code, and a last word that names the values.
func wantEnd(t *testing.T, p *process, code int, words ...string) {
	t.Helper()
	if got := p.exitCode(); got != code {
		t.Errorf("exit code %d, want %d:\n%s", got, code, p.log())
	}
	said := p.find("quorumd: ")
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%q does not say %q", said, w)
		}
	}
	if p.find("fix: ") == "" {
		t.Errorf("no next step:\n%s", p.log())
	}
}

func TestSwappedVolumesAreRefusedAndTheRestServes(t *testing.T) {
	ps := startThree(t)
	for _, p := range ps[1:] {
		p.signal(syscall.SIGTERM)
		if code := p.exitCode(); code != 0 {
			t.Fatalf("SIGTERM: exit code %d", code)
		}
	}
	swapped := launch(t, 102, ps[2].dir, ps[1].addr)
	wantEnd(t, swapped, 78, filepath.Join(ps[2].dir, "meta"), "102", "103")
	run(t, 102, ps[1].dir, ps[1].addr).awaitReady()
	ps[0].awaitReady()
}

// TestNodeAmongStrangersEndsAndTheyServe: the third node of another cluster is given the addresses of this one.
func TestNodeAmongStrangersEndsAndTheyServe(t *testing.T) {
	ours := startThree(t)
	theirs := startThree(t)
	lost := theirs[2]
	for _, p := range theirs {
		p.kill()
	}
	stray := launch(t, 103, lost.dir, lost.addr, "--peer", fmt.Sprintf("101@%s,102@%s", ours[0].addr, ours[1].addr))
	wantEnd(t, stray, 78, filepath.Join(lost.dir, "meta"), lost.status().ClusterID, ours[0].status().ClusterID)
	for _, p := range ours {
		if s := p.status(); !s.Ready {
			t.Errorf("node %d is not ready: %s", p.id, s.NotReadyReason)
		}
	}
}

func TestWipedDiskIsReportedOnceAndTheOthersServe(t *testing.T) {
	ps := startThree(t)
	ps[2].kill()
	if err := os.RemoveAll(ps[2].dir); err != nil {
		t.Fatal(err)
	}
	wiped := run(t, 103, ps[2].dir, ps[2].addr)
	wiped.await("the report", func() bool { return wiped.find("wiped or replaced") != "" })
	for range 5 { // dials of the others, each of which could repeat the line
		dialAs(t, ps[0], ps[2], wiped.addr)
	}
	wiped.mu.Lock()
	errors := 0
	for _, l := range wiped.lines {
		if strings.Contains(l, `"@level":"error"`) {
			errors++
		}
	}
	wiped.mu.Unlock()
	if errors != 1 {
		t.Errorf("%d errors, want one:\n%s", errors, wiped.log())
	}
	if s := wiped.status(); s.Ready || !strings.Contains(s.NotReadyReason, "rejoin") {
		t.Errorf("ready %t, %q", s.Ready, s.NotReadyReason)
	}
	for _, p := range ps[:2] {
		p.awaitReady()
	}
}

// raftID is who an initialised process said that it is.
func (p *process) raftID() transport.PeerID {
	p.t.Helper()
	var fields struct {
		ID string `json:"raft-id"`
	}
	if err := json.Unmarshal([]byte(p.find("is a member of the quorum")), &fields); err != nil {
		p.t.Fatal(err)
	}
	id, err := transport.ParsePeerID(fields.ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// dialAs opens a Raft connection to addr as from does, meaning to, and wants it refused.
func dialAs(t *testing.T, from, to *process, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	preamble := transport.Preamble{Standing: transport.Standing{ClusterID: from.status().ClusterID}, From: from.raftID(), To: to.raftID()}
	if _, err := c.Write(preamble.Encode()); err != nil {
		t.Fatal(err)
	}
	if a, err := transport.ReadAnswer(c); err != nil || a.Verdict == transport.Accepted {
		t.Errorf("%+v, %v; want a refusal", a, err)
	}
}

func TestDifferingInitIsRefused(t *testing.T) {
	ps := startThree(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := bootstrap.Init(ctx, voters(ps[:2]...), bootstrap.Options{})
	var refused *bootstrap.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Cause, ps[2].addr) {
		t.Errorf("%v", err)
	}
	if again, err := bootstrap.Init(ctx, voters(ps...), bootstrap.Options{}); err != nil || !again.AlreadyInitialised {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}

func TestPortInUseEndsBeforeAnythingIsWritten(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "data")
	wantEnd(t, launch(t, 101, dir, l.Addr().String()), 1, l.Addr().String(), "in use")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	p := run(t, 101, t.TempDir(), "127.0.0.1:0")
	wantEnd(t, launch(t, 101, p.dir, "127.0.0.1:0"), 1, p.dir)
}

func TestUnwritableDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, launch(t, 101, filepath.Join(file, "data"), "127.0.0.1:0"), 1, file)
	if os.Getuid() == 0 {
		return // permissions do not bind root
	}
	readOnly := filepath.Join(dir, "read-only")
	if err := os.Mkdir(readOnly, 0o555); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, launch(t, 101, readOnly, "127.0.0.1:0"), 1, readOnly)
}

func TestUnknownKeyIsRefused(t *testing.T) {
	p := launch(t, 101, t.TempDir(), "127.0.0.1:0", "--set", "node.idd=1")
	wantEnd(t, p, 2, "node.idd")
}

func TestSingleVoterEndsWithZeroAndComesBack(t *testing.T) {
	p := run(t, 101, t.TempDir(), "127.0.0.1:0")
	first := initQuorum(t, p)
	p.signal(syscall.SIGTERM)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.log())
	}
	again := run(t, 101, p.dir, p.addr)
	again.awaitReady()
	if got := again.status().ClusterID; got != first.ClusterID {
		t.Errorf("cluster %s, then %s", first.ClusterID, got)
	}
}

// TestKilledLeaderIsReplacedAndComesBack kills the leader by its pid, asserted through its status, and starts it again:
// all agree on one (lineage, metadata offset, digest).
func TestKilledLeaderIsReplacedAndComesBack(t *testing.T) {
	ps := startThree(t)
	at := -1
	for i, p := range ps {
		if s := p.status(); s.Active && s.PID == p.cmd.Process.Pid {
			at = i
		}
	}
	if at < 0 {
		t.Fatal("nobody is active")
	}
	ps[at].kill()
	other := ps[(at+1)%3]
	other.await("another active controller", func() bool {
		return other.status().Active || ps[(at+2)%3].status().Active
	})
	ps[at] = run(t, ps[at].id, ps[at].dir, ps[at].addr)
	ps[at].awaitReady()
	ps[at].await("agreement", func() bool {
		a, b, c := ps[0].status(), ps[1].status(), ps[2].status()
		same := func(x, y admin.Status) bool {
			return x.Lineage == y.Lineage && x.MetadataOffset == y.MetadataOffset && x.Digest == y.Digest && x.Digest != ""
		}
		return same(a, b) && same(b, c)
	})
}

// TestGarbageOnThePortDisturbsNobody: half frames, strangers and huge lengths while the quorum works.
func TestGarbageOnThePortDisturbsNobody(t *testing.T) {
	ps := startThree(t)
	term := ps[0].status().Term
	var conns []net.Conn
	for _, p := range ps {
		for _, garbage := range []string{"\xf5SRP", "\x7f\xff\xff\xff", "\x80\x00\x00\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", ""} {
			c, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte(garbage)); err != nil {
				t.Error(err)
			}
			conns = append(conns, c)
		}
	}
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, c)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Error("a half-open connection was not closed")
		}
	}
	for _, p := range ps {
		if s := p.status(); !s.Ready || s.Term != term {
			t.Errorf("node %d: ready %t, term %d, was %d: %s", p.id, s.Ready, s.Term, term, s.NotReadyReason)
		}
	}
}

func TestMetricsOfAnEmptyNodeAndOfALeader(t *testing.T) {
	p := run(t, 101, t.TempDir(), "127.0.0.1:0")
	read := func() string {
		resp, err := http.Get("http://" + p.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		s := bufio.NewScanner(resp.Body)
		for s.Scan() {
			b.WriteString(s.Text() + "\n")
		}
		return b.String()
	}
	for _, line := range []string{"skiff_raft_leader_known 0\n", "kafka_controller_kafkacontroller_activecontrollercount 0\n"} {
		if got := read(); !strings.Contains(got, line) {
			t.Errorf("an empty node has no %q:\n%s", line, got)
		}
	}
	initQuorum(t, p)
	for _, line := range []string{"skiff_raft_leader_known 1\n", "kafka_controller_kafkacontroller_activecontrollercount 1\n", "skiff_raft_append_seconds_count ", "raft_apply "} {
		if got := read(); !strings.Contains(got, line) {
			t.Errorf("a leader has no %q:\n%s", line, got)
		}
	}
}
