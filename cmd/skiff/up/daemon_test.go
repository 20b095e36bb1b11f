package up

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/config"
)

// TestMain makes this binary a daemon that does as little as `up` can tell apart from a real one.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && (os.Args[1] == "quorumd" || os.Args[1] == "brokerd") {
		os.Exit(fakeDaemon(os.Args[1], os.Args[3]))
	}
	os.Exit(m.Run())
}

// fakeDaemon serves the admin port until SIGTERM. What it does besides is written in files of its data directory by the test:
// "exit" holds the code with which it ends at once, "deaf" makes it ignore SIGTERM, "shy" makes it never ready.
func fakeDaemon(program, file string) int {
	in := config.Input{File: file, FileGiven: true, Env: os.Environ()}
	status := admin.Status{PID: os.Getpid(), Ready: true}
	var adminAddress, address, dir string
	if program == "quorumd" {
		c, err := config.LoadQuorum(in)
		if err != nil {
			return config.Report(os.Stderr, program, err)
		}
		status.Role, status.NodeID, adminAddress, address, dir = "quorum", c.NodeID, c.AdminListeners[0], c.Listener.Address(), c.DataDir
	} else {
		c, err := config.LoadBroker(in)
		if err != nil {
			return config.Report(os.Stderr, program, err)
		}
		status.Role, status.NodeID, adminAddress, address, dir = "broker", c.NodeID, c.AdminListeners[0], c.Listeners[0].Address(), c.LogDirs[0]
	}
	if text, err := os.ReadFile(filepath.Join(dir, "exit")); err == nil {
		var code int
		if _, err := fmt.Sscan(string(text), &code); err != nil {
			return config.ExitFailed
		}
		return config.Report(os.Stderr, program, &config.ExitError{Code: code, Cause: "told to", Fix: "do not"})
	}
	if has(dir, "shy") {
		status.Ready, status.NotReadyReason = false, "too shy"
	}
	return serveUntilSignal(adminAddress, address, status, has(dir, "deaf"))
}

func has(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func serveUntilSignal(adminAddress, address string, status admin.Status, deaf bool) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM)
	own, err := net.Listen("tcp", address)
	if err != nil {
		return config.Report(os.Stderr, status.Role, err)
	}
	defer own.Close()
	listeners, err := admin.Listen([]string{adminAddress})
	if err != nil {
		return config.Report(os.Stderr, status.Role, err)
	}
	server := admin.Serve(listeners[0], admin.Admin{Status: func() any { return status }})
	for range signals {
		if !deaf {
			break
		}
	}
	fmt.Fprintf(os.Stderr, "stopped %s\n", time.Now().UTC().Format(time.RFC3339Nano))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		return config.Report(os.Stderr, status.Role, err)
	}
	return config.ExitOK
}

// run is one `skiff up` in a goroutine of the test.
type run struct {
	t       *testing.T
	options Options
	end     context.CancelFunc
	abort   context.CancelFunc
	stderr  *lines
	result  chan error
	client  *Client
	ended   bool
}

// options of a small cluster in dir.
func options(dir string) Options {
	return Options{
		Data: dir, Controllers: 1, Brokers: 1, Port: 0, ReadyFile: filepath.Join(dir, "ready.json"), Wait: 30 * time.Second,
		Executable: os.Args[0], Init: func(context.Context, []Spec) error { return nil },
	}
}

// begin starts `up`; the test ends it at the latest when it is over.
func begin(t *testing.T, o Options) *run {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	aborted, abort := context.WithCancel(context.Background())
	r := &run{t: t, options: o, end: end, abort: abort, stderr: &lines{}, result: make(chan error, 1)}
	r.options.Stdout, r.options.Stderr = &lines{}, r.stderr
	var err error
	if r.client, err = NewClient(o.Data); err != nil {
		t.Fatal(err)
	}
	go func() { r.result <- Run(ctx, aborted, r.options) }()
	t.Cleanup(func() {
		if r.ended {
			return
		}
		abort()
		end()
		if err := r.wait(); err != nil {
			t.Logf("up: %v", err)
		}
	})
	return r
}

// wait waits for the end of `up` and returns its error.
func (r *run) wait() error {
	r.t.Helper()
	select {
	case err := <-r.result:
		r.ended = true
		return err
	case <-time.After(60 * time.Second):
		r.t.Fatal("up did not end")
		return nil
	}
}

// stop ends `up` in order.
func (r *run) stop() {
	r.t.Helper()
	r.end()
	if err := r.wait(); err != nil {
		r.t.Errorf("up: %v", err)
	}
}

// ready waits for the ready file.
func (r *run) ready() {
	r.t.Helper()
	eventually(r.t, "ready file", func() bool {
		select {
		case err := <-r.result:
			r.ended = true
			r.t.Fatalf("up ended: %v", err)
		default:
		}
		_, err := os.Stat(r.options.ReadyFile)
		return err == nil
	})
}

func (r *run) node(name string) Node {
	r.t.Helper()
	nodes, err := r.client.List(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == name {
			return n
		}
	}
	r.t.Fatalf("no node %s in %v", name, nodes)
	return Node{}
}

func (r *run) do(name, verb string) Node {
	r.t.Helper()
	n, err := r.client.Do(context.Background(), name, verb, false)
	if err != nil {
		r.t.Fatalf("%s %s: %v", verb, name, err)
	}
	return n
}

// answers waits until a node's admin server is answered by its present process.
func (r *run) answers(name string) {
	r.t.Helper()
	eventually(r.t, name+" answers", func() bool {
		n := r.node(name)
		_, port, err := net.SplitHostPort(n.Admin)
		if err != nil {
			r.t.Fatal(err)
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			r.t.Fatal(err)
		}
		status, err := fetchStatus(context.Background(), Spec{Name: n.Name, ID: n.ID, AdminPort: number})
		return err == nil && status.PID == n.PID
	})
}

// eventually waits for a condition with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within 30 s", what)
		case <-ticker.C:
		}
	}
}

// alive tells whether a process exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// plant puts a file into a node's directory.
func plant(t *testing.T, dir, node, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, node), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, node, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// logged counts the lines of a node's log that contain text.
func logged(t *testing.T, dir, node, text string) int {
	t.Helper()
	data, err := os.ReadFile(layout{dir: dir}.log(node))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), text)
}
