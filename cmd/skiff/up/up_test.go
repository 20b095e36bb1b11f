package up

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skiffmq/skiff/cmd/config"
)

func TestReadyFileTellsHowToReachTheCluster(t *testing.T) {
	o := options(t.TempDir())
	o.Brokers = 2
	r := begin(t, o)
	r.ready()
	data, err := os.ReadFile(o.ReadyFile)
	if err != nil {
		t.Fatal(err)
	}
	var ready Ready
	if err := json.Unmarshal(data, &ready); err != nil {
		t.Fatal(err)
	}
	if len(ready.BootstrapServers) != 2 || len(ready.Controllers) != 1 || ready.PID != os.Getpid() || len(ready.Nodes) != 3 {
		t.Fatalf("got %+v", ready)
	}
	for i, want := range []struct {
		name, role string
		id         int32
	}{{"c1", Quorum, 101}, {"b1", Broker, 1}, {"b2", Broker, 2}} {
		n := ready.Nodes[i]
		if n.Name != want.name || n.Role != want.role || n.ID != want.id || n.State != Running || !alive(n.PID) || n.Data != filepath.Join(o.Data, n.Name) {
			t.Errorf("node %+v, want %+v", n, want)
		}
	}
	pids := []int{ready.Nodes[0].PID, ready.Nodes[1].PID, ready.Nodes[2].PID}
	r.stop()
	if slices.ContainsFunc(pids, alive) {
		t.Error("a child lives on")
	}
	if _, err := os.Stat(o.ReadyFile); err == nil {
		t.Error("the ready file is still there")
	}
}

func TestBrokersStopBeforeTheQuorum(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	r.stop()
	when := func(node string) string {
		data, err := os.ReadFile(layout{dir: r.options.Data}.log(node))
		if err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(string(data), "stopped ")
		if !found {
			t.Fatalf("%s did not stop in order: %s", node, data)
		}
		return strings.TrimSpace(after)
	}
	if broker, quorum := when("b1"), when("c1"); broker >= quorum {
		t.Errorf("broker stopped at %s, quorum at %s", broker, quorum)
	}
}

func TestUpContinuesWithItsPorts(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	before, err := ReadState(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	o.Controllers, o.Brokers, o.Port = Unset, 2, Unset
	o.Init = func(context.Context, []Spec) error { t.Error("initialised twice"); return nil }
	r = begin(t, o)
	r.ready()
	after, err := ReadState(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	if !after.Initialised || !slices.Equal(after.Nodes[:2], before.Nodes) || len(after.Nodes) != 3 || after.Nodes[2].Name != "b2" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	r.stop()
}

func TestUpRefusesToMakeAnotherClusterOfOldData(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	r.stop()
	for name, change := range map[string]func(*Options){
		"controllers": func(o *Options) { o.Controllers = 3 },
		"brokers":     func(o *Options) { o.Brokers = 0 },
		"port":        func(o *Options) { o.Port = 9092 },
	} {
		other := o
		change(&other)
		if err := begin(t, other).wait(); config.ExitCode(err) != config.ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecondUpIsRefused(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	second := o
	second.ReadyFile = ""
	err := begin(t, second).wait()
	if config.ExitCode(err) != config.ExitFailed || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) {
		t.Errorf("got %v", err)
	}
	if r.node("b1").State != Running {
		t.Error("the first cluster was disturbed")
	}
	r.stop()
}

func TestTakenPortStartsNothing(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	r.stop()
	state, err := ReadState(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", state.Nodes[1].Admin())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	logsBefore := logged(t, o.Data, "c1", "\n")
	err = begin(t, o).wait()
	if config.ExitCode(err) != config.ExitFailed || !strings.Contains(err.Error(), state.Nodes[1].Admin()+" (b1)") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if logged(t, o.Data, "c1", "\n") != logsBefore {
		t.Error("something was started")
	}
}

func TestBrokenChildIsStartedAgain(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	plant(t, o.Data, "b1", "exit", "70")
	r.do("b1", Restart)
	eventually(t, "two restarts", func() bool { return r.node("b1").Restarts >= 2 })
	if err := os.Remove(filepath.Join(o.Data, "b1", "exit")); err != nil {
		t.Fatal(err)
	}
	r.answers("b1")
	if !r.stderr.has("b1 broke (exit status 70)") || !r.stderr.has("told to") {
		t.Errorf("stderr: %s", r.stderr)
	}
	r.stop()
}

func TestRefusedAndFailedChildrenStayDown(t *testing.T) {
	for code, state := range map[string]string{"78": Refused, "1": Failed} {
		t.Run(state, func(t *testing.T) {
			o := options(t.TempDir())
			r := begin(t, o)
			r.ready()
			plant(t, o.Data, "b1", "exit", code)
			r.do("b1", Restart)
			eventually(t, state, func() bool { return r.node("b1").State == state })
			if n := r.node("b1"); n.PID != 0 || n.Restarts != 0 || n.LastExit != "exit status "+code {
				t.Errorf("got %+v", n)
			}
			if !r.stderr.has("stays down") || !r.stderr.has("told to") {
				t.Errorf("stderr: %s", r.stderr)
			}
			r.stop()
		})
	}
}

func TestChildThatDoesNotStartEndsUp(t *testing.T) {
	for code, want := range map[string]int{"78": config.ExitRefused, "2": config.ExitFailed} {
		o := options(t.TempDir())
		plant(t, o.Data, "b1", "exit", code)
		r := begin(t, o)
		err := r.wait()
		if config.ExitCode(err) != want || !strings.Contains(err.Error(), "told to") {
			t.Errorf("exit %s: got %v (%d)", code, err, config.ExitCode(err))
		}
	}
}

func TestInitEndsWhenAQuorumNodeDies(t *testing.T) {
	o := options(t.TempDir())
	plant(t, o.Data, "c1", "exit", "1")
	o.Init = func(ctx context.Context, _ []Spec) error {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := begin(t, o).wait(); config.ExitCode(err) != config.ExitFailed || !strings.Contains(err.Error(), "c1 did not start") {
		t.Errorf("got %v", err)
	}
}

func TestNeverReadyNodeIsNamed(t *testing.T) {
	o := options(t.TempDir())
	plant(t, o.Data, "b1", "shy", "")
	o.Wait = 2_000_000_000
	if err := begin(t, o).wait(); config.ExitCode(err) != config.ExitFailed || !strings.Contains(err.Error(), "b1 among them: too shy") {
		t.Errorf("got %v", err)
	}
}

func TestEndBeforeReadyIsNoFailure(t *testing.T) {
	o := options(t.TempDir())
	plant(t, o.Data, "b1", "shy", "")
	r := begin(t, o)
	eventually(t, "running", func() bool {
		nodes, err := r.client.List(context.Background())
		return err == nil && nodes[len(nodes)-1].State == Running
	})
	r.stop()
}

func TestNodeVerbs(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	first := r.node("b1").PID

	if n := r.do("b1", Pause); n.State != Paused || n.PID != first {
		t.Errorf("pause: %+v", n)
	}
	if n := r.do("b1", Resume); n.State != Running || n.PID != first {
		t.Errorf("resume: %+v", n)
	}
	if n := r.do("b1", Kill); n.State != Stopped || n.PID != 0 || n.LastExit != "signal: killed" || alive(first) {
		t.Errorf("kill: %+v", n)
	}
	if _, err := r.client.Do(context.Background(), "b1", Kill, false); config.ExitCode(err) != config.ExitFailed {
		t.Errorf("kill without a process: %v", err)
	}
	second := r.do("b1", Restart)
	if second.State != Running || second.PID == first || second.Restarts != 0 {
		t.Errorf("restart: %+v", second)
	}
	r.answers("b1")
	r.do("b1", Pause)
	if n := r.do("b1", Stop); n.State != Stopped || n.LastExit != "exit status 0" {
		t.Errorf("stop of a paused node: %+v", n)
	}
	if n := r.do("b1", Stop); n.State != Stopped {
		t.Errorf("stop of a stopped node: %+v", n)
	}
	r.do("b1", Restart)
	r.do("b1", Pause)
	if n := r.do("b1", Kill); n.State != Stopped {
		t.Errorf("kill of a paused node: %+v", n)
	}
	for _, c := range [][2]string{{"b9", Kill}, {"b1", "dance"}} {
		if _, err := r.client.Do(context.Background(), c[0], c[1], false); config.ExitCode(err) != config.ExitUsage {
			t.Errorf("%v: %v", c, err)
		}
	}
	r.stop()
}

// TestKillAsksFirst: another process answers at the node's admin port, so the node is not killed.
func TestKillAsksFirst(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	n := r.node("b1")
	eventually(t, "killed from outside and reported", func() bool {
		if v := r.node("b1"); v.PID == n.PID {
			if err := syscall.Kill(n.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		return r.node("b1").State == Failed
	})
	impostor, err := net.Listen("tcp", n.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer impostor.Close()
	go func() {
		for {
			conn, err := impostor.Accept()
			if err != nil {
				return
			}
			body := `{"node_id":1,"pid":1}`
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body))
			conn.Close()
		}
	}()
	plant(t, o.Data, "b1", "exit", "70") // it cannot bind its port, and would end in another way
	r.do("b1", Restart)
	eventually(t, "a process to kill", func() bool {
		if r.node("b1").PID == 0 {
			return false
		}
		_, err := r.client.Do(context.Background(), "b1", Kill, false)
		return err != nil && strings.Contains(err.Error(), "is answered by pid 1")
	})
	r.stop()
}

func TestDeafChildIsKilledOnAbort(t *testing.T) {
	o := options(t.TempDir())
	plant(t, o.Data, "b1", "deaf", "")
	r := begin(t, o)
	r.ready()
	pid := r.node("b1").PID
	r.end()
	r.abort()
	if err := r.wait(); err != nil {
		t.Errorf("up: %v", err)
	}
	if alive(pid) {
		t.Error("the deaf child lives on")
	}
}

func TestClientWithoutUpSaysHow(t *testing.T) {
	c, err := NewClient(filepath.Join(t.TempDir(), strings.Repeat("long", 30)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.List(context.Background())
	if config.ExitCode(err) != config.ExitFailed || !strings.Contains(err.Error(), "no skiff up answers") {
		t.Errorf("got %v", err)
	}
}
