package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/brokerd/wire"
)

// isAlive tells whether the server still answers.
func isAlive(t *testing.T, ts *testServer) {
	t.Helper()
	if resp := ask[*kmsg.ApiVersionsResponse](t, ts, kmsg.NewPtrApiVersionsRequest(), 0); resp.ErrorCode != 0 {
		t.Fatalf("the server answers with error %d", resp.ErrorCode)
	}
}

// frameOf prefixes bytes with a size.
func frameOf(size uint32, b ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, size), b...)
}

// TestHostileBytesEndTheirConnection: each costs one connection and one line, and nobody else notices.
func TestHostileBytesEndTheirConnection(t *testing.T) {
	const trusted = true
	tests := map[string]struct {
		bytes   []byte
		trusted bool
		line    string
	}{
		"2 GiB":                        {frameOf(1<<31 - 1), false, "bad frame size: peer=pipe size=2147483647 limit=104857600"},
		"negative":                     {frameOf(1<<32 - 1), false, "bad frame size: peer=pipe size=-1"},
		"above the cap":                {frameOf(100<<20 + 1), false, "bad frame size"},
		"http":                         {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false, "bad frame size"},
		"tls":                          {[]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc}, false, "bad frame size"},
		"too short for a header":       {frameOf(4, 0, 18, 0, 0), false, "malformed request"},
		"empty":                        {frameOf(0), false, "malformed request"},
		"unknown key":                  {rawRequest(999, 0, 1, "some-client", nil), false, `request is not served: peer=pipe client=some-client key=999 version=0`},
		"negative key":                 {rawRequest(-5, 0, 1, "c", nil), false, "request is not served"},
		"unsupported version":          {rawRequest(3, 14, 1, "some-client", nil), false, `client=some-client key=3 version=14`},
		"negative version":             {rawRequest(3, -1, 1, "c", nil), false, "request is not served"},
		"client id beyond the frame":   {frameOf(10, 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff), false, "malformed request"},
		"body cut short":               {rawRequest(3, 1, 1, "c", []byte{0, 0, 0, 9}), false, "malformed request"},
		"four billion topics":          {rawRequest(3, 9, 1, "c", []byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f}), false, "malformed request"},
		"large before the first":       {frameOf(64<<10+1, 0, 3, 0, 1, 0, 0, 0, 1), false, "bad frame size: peer=pipe size=65537 limit=65536"},
		"large metadata":               {frameOf(4<<20+1, 0, 3, 0, 1, 0, 0, 0, 1), trusted, "bad frame size: peer=pipe size=4194305 limit=4194304"},
		"large unknown ApiVersions":    {frameOf(64<<10+1, 0, 18, 0, 99, 0, 0, 0, 1), trusted, "bad frame size"},
		"four billion header tags":     {rawRequest(18, 3, 1, "c", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}), false, "malformed request"},
		"four billion ApiVersion tags": {rawRequest(18, 3, 1, "c", []byte{0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}), false, "malformed request"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, nil)
			c := ts.pipe("PLAINTEXT")
			if tt.trusted {
				writeRaw(t, c, 18, 0, 1, "c", nil)
				readRaw(t, c, kmsg.NewPtrApiVersionsResponse(), 1)
			}
			_, _ = c.Write(tt.bytes) // the server may close before it has read all of it
			if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
				t.Fatalf("answered %x, %v", b, err)
			}
			waitFor(t, func() bool { return len(ts.logged.all()) > 0 })
			if lines := ts.logged.all(); len(lines) != 1 || !strings.Contains(lines[0], tt.line) {
				t.Fatalf("log %q, want one line with %q", lines, tt.line)
			}
			isAlive(t, ts)
		})
	}
}

// TestFollowerOfManyPartitionsOpensWithOneFetch: it knows what its leader speaks, and its first request is not small.
func TestFollowerOfManyPartitionsOpensWithOneFetch(t *testing.T) {
	ts := newTestServer(t, nil)
	req := fetchOf("", 7, 0, 0)
	req.ReplicaState.ID, req.ReplicaState.Epoch, req.MaxWaitMillis = 2, 5, 0
	for range 10_000 {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, req.Topics[0].Partitions[0])
	}
	if got := ask[*kmsg.FetchResponse](t, ts, req, wire.ReplicaFetchVersion).Topics[0].Partitions; len(got) != 10_001 || got[10_000].ErrorCode != 0 {
		t.Fatalf("%d partitions", len(got))
	}
}

// TestFloodOfGarbageIsOneLineASecond: what peers can provoke does not fill the disk.
func TestFloodOfGarbageIsOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		flood := func(n int) {
			for range n {
				c := ts.pipe("PLAINTEXT")
				_, _ = c.Write(frameOf(1<<31 - 1))
				_, _ = io.ReadAll(c)
			}
			synctest.Wait()
		}
		flood(100)
		time.Sleep(2 * time.Second)
		flood(1)
		lines := ts.logged.all()
		if len(lines) != 2 || !strings.Contains(lines[1], "omitted=99") {
			t.Fatalf("%q", lines)
		}
	})
}

// TestSilentPeersAreClosed: each wait for bytes has a deadline.
func TestSilentPeersAreClosed(t *testing.T) {
	large := rawRequest(0, 9, 1, "c", make([]byte, 1<<20))
	tests := map[string]struct {
		first bool // a good request first
		bytes []byte
		want  time.Duration
	}{
		"says nothing":            {false, nil, 30 * time.Second},
		"says nothing more":       {true, nil, 10 * time.Minute},
		"half a size":             {false, []byte{0, 0}, 30 * time.Second},
		"size without a header":   {true, frameOf(100), 30 * time.Second},
		"half a frame":            {true, rawRequest(3, 1, 1, "c", make([]byte, 100))[:50], 30 * time.Second},
		"half a large frame":      {true, large[:1<<19], (30 + 16) * time.Second},
		"all but one of a MiB":    {true, large[:len(large)-1], (30 + 16) * time.Second},
		"promises a lot of bytes": {true, append(frameOf(64<<20), large[4:70_000]...), (30 + 1024) * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, nil)
				c := ts.pipe("PLAINTEXT")
				if tt.first {
					writeRaw(t, c, 18, 0, 1, "c", nil)
					readRaw(t, c, kmsg.NewPtrApiVersionsResponse(), 1)
				}
				if _, err := c.Write(tt.bytes); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
					t.Fatalf("answered %x, %v", b, err)
				}
				if got := time.Since(start); got != tt.want {
					t.Fatalf("closed after %s, want %s", got, tt.want)
				}
				synctest.Wait()
				if left := ts.inFlight.left; left != ts.limits.InFlightBytesMax {
					t.Fatalf("%d bytes of the budget are lost", ts.limits.InFlightBytesMax-left)
				}
			})
		})
	}
}

// TestSlowLoris: a byte now and then does not keep a frame open.
func TestSlowLoris(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		c := ts.pipe("PLAINTEXT")
		start := time.Now()
		for _, b := range rawRequest(3, 1, 1, "c", make([]byte, 1000)) {
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(5 * time.Second)
		}
		if got := time.Since(start); got > 2*time.Minute {
			t.Fatalf("held for %s", got)
		}
	})
}

// TestPeerThatDoesNotReadIsClosed: answers have a deadline, too.
func TestPeerThatDoesNotReadIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		c := ts.pipe("PLAINTEXT")
		writeRaw(t, c, 18, 0, 1, "c", nil)
		start := time.Now()
		ts.waitForConns(t, 0)
		if got := time.Since(start); got < 30*time.Second || got > 31*time.Second { // looked at once a second
			t.Fatalf("held for %s", got)
		}
	})
}

// waitForConns waits until exactly n connections are open; inside a bubble, where it sleeps.
func (ts *testServer) waitForConns(t *testing.T, n int) {
	t.Helper()
	for range 10_000 {
		ts.Server.mu.Lock()
		open := len(ts.conns)
		ts.Server.mu.Unlock()
		if open == n {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("never had %d connections", n)
}

// TestHandlerPanicCostsItsConnectionOnly: a bug in a handler is nobody else's end.
func TestHandlerPanicCostsItsConnectionOnly(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.replicas.fetch = func(context.Context, replica.FetchRequest) []replica.FetchResult { panic("planted") }
	req := fetchOf("foo", 7, 0, 0)
	req.SetVersion(12)
	if _, err := ts.conn(t).Request(t.Context(), req); err == nil {
		t.Fatal("answered")
	}
	waitFor(t, func() bool { return strings.Contains(strings.Join(ts.logged.all(), ""), "planted") })
	isAlive(t, ts)
}

// TestLargeFramesShareABudget: requests in flight are bounded in bytes, and nobody starves (I20).
func TestLargeFramesShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 300 << 10
		ts := newTestServer(t, func(c *Config) { c.Limits.InFlightBytesMax = size })
		var inFlight, most int
		var mu sync.Mutex
		ts.replicas.await = func(_ context.Context, a []replica.Appended) []error {
			mu.Lock()
			inFlight++
			most = max(most, inFlight)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inFlight--
			mu.Unlock()
			return make([]error, len(a))
		}
		var done sync.WaitGroup
		for range 6 {
			c := ts.conn(t)
			done.Go(func() {
				req := produceTo("foo", 0, -1, batchOf(t, recordbatch.BuildOptions{}, strings.Repeat("x", size)))
				req.TimeoutMillis = 60_000
				req.SetVersion(9)
				if resp, err := c.Request(context.Background(), req); err != nil || resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0 {
					t.Errorf("%+v, %v", resp, err)
				}
			})
		}
		done.Wait()
		synctest.Wait()
		if most != 1 {
			t.Fatalf("%d requests of the whole budget were in flight at once", most)
		}
		if ts.inFlight.left != size {
			t.Fatalf("%d bytes left of %d", ts.inFlight.left, size)
		}
	})
}

func TestBudgetWaitEndsWithItsContext(t *testing.T) {
	b := newBudget(10)
	if err := b.acquire(t.Context(), 25); err != nil { // more than there is, but there was some
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.acquire(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	b.release(25)
	if err := b.acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

// TestThousandConnections: idle ones cost little, and one more than allowed is closed.
func TestThousandConnections(t *testing.T) {
	const n = 1000
	ts := newTestServer(t, func(c *Config) { c.Limits.ConnectionsMax = n })
	address := ts.listen(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	for i, c := range conns {
		writeRaw(t, c, 18, 0, int32(i), "c", nil)
		readRaw(t, c, kmsg.NewPtrApiVersionsResponse(), int32(i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := (int64(after.HeapAlloc) - int64(before.HeapAlloc) + int64(after.StackInuse) - int64(before.StackInuse)) / n; per > 40<<10 {
		t.Errorf("%d bytes a connection, its client included", per)
	}
	extra, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if b, err := io.ReadAll(extra); len(b) > 0 || err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("one too many: %x, %v", b, err)
	}
	conns[0].Close()
	waitFor(t, func() bool { // its place is free again
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		defer c.Close()
		_, _ = c.Write(rawRequest(18, 0, 1, "c", nil))
		_, err = wire.ReadFrame(c, 1<<20)
		return err == nil
	})
}

// listen serves on a loopback port as listener PLAINTEXT and returns its address.
func (ts *testServer) listen(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- ts.Serve("PLAINTEXT", l) }()
	tb.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = ts.Shutdown(ctx)
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			tb.Errorf("Serve returned %v", err)
		}
	})
	return l.Addr().String()
}

// TestShutdownAnswersWhatIsInFlight: idle connections end at once, parked fetches answer with what there is, a produce is
// waited for.
func TestShutdownAnswersWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		ts.replicas.await = func(_ context.Context, a []replica.Appended) []error {
			time.Sleep(3 * time.Second)
			return make([]error, len(a))
		}
		idle, consumer, producer := ts.pipe("PLAINTEXT"), ts.conn(t), ts.conn(t)
		var done sync.WaitGroup
		start := time.Now()
		done.Go(func() {
			_, err := io.ReadAll(idle)
			if at := time.Since(start); err != nil || at != time.Second {
				t.Errorf("idle connection ended after %s with %v", at, err)
			}
		})
		done.Go(func() {
			req := fetchOf("foo", 7, 1, 0)
			req.MaxWaitMillis = 50_000
			req.SetVersion(12)
			resp, err := consumer.Request(context.Background(), req)
			if at := time.Since(start); err != nil || at != time.Second || resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode != 0 {
				t.Errorf("fetch ended after %s with %+v, %v", at, resp, err)
			}
		})
		done.Go(func() {
			req := produceTo("foo", 0, -1, batchOf(t, recordbatch.BuildOptions{}, "a"))
			req.SetVersion(9)
			if _, err := producer.Request(context.Background(), req); err != nil {
				t.Error(err)
			}
			if _, err := producer.Request(context.Background(), req); err == nil {
				t.Error("a request after Shutdown was answered")
			}
		})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := ts.Shutdown(ctx); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("shut down after %s with %v", time.Since(start), err)
		}
		done.Wait()
		late := ts.pipe("PLAINTEXT")
		if b, err := io.ReadAll(late); len(b) > 0 || err != nil {
			t.Errorf("a connection after Shutdown got %x, %v", b, err)
		}
	})
}

// TestShutdownEndsInTime: what does not end by itself is cut off.
func TestShutdownEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		ts.replicas.await = func(ctx context.Context, _ []replica.Appended) []error {
			<-ctx.Done()
			return []error{ctx.Err()}
		}
		producer := ts.conn(t)
		go func() {
			req := produceTo("foo", 0, -1, batchOf(t, recordbatch.BuildOptions{}, "a"))
			req.TimeoutMillis = 3_600_000
			req.SetVersion(9)
			_, _ = producer.Request(context.Background(), req)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		if err := ts.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Fatalf("shut down after %s with %v", time.Since(start), err)
		}
	})
}

func TestServeAfterShutdown(t *testing.T) {
	ts := newTestServer(t, nil)
	if err := ts.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.Serve("PLAINTEXT", l); !errors.Is(err, ErrServerClosed) {
		t.Fatalf("got %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("the listener is open: %v", err)
	}
}

// failingListener fails a few times, as a process without file descriptors does, and then hands out one connection.
type failingListener struct {
	net.Listener
	failures int
	conn     net.Conn
	closed   chan struct{}
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, errors.New("too many open files")
	}
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *failingListener) Close() error {
	close(l.closed)
	return nil
}

func (l *failingListener) Addr() net.Addr { return &net.UnixAddr{Name: "test"} }

// TestAcceptErrorsAreOutlived: running out of file descriptors is not the end of the listener.
func TestAcceptErrorsAreOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		client, server := net.Pipe()
		l := &failingListener{failures: 10, conn: server, closed: make(chan struct{})}
		served := make(chan error)
		go func() { served <- ts.Serve("PLAINTEXT", l) }()
		writeRaw(t, client, 18, 0, 1, "c", nil)
		readRaw(t, client, kmsg.NewPtrApiVersionsResponse(), 1)
		if err := ts.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Fatalf("Serve returned %v", err)
		}
	})
}

func TestNewRefusesAnIncompleteConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Fatal("accepted an empty config")
	}
	ts := newTestServer(t, nil)
	config := ts.config
	config.NodeID = -1
	if _, err := New(config); err == nil {
		t.Fatal("accepted a negative node id")
	}
}

// FuzzConnection feeds a connection arbitrary bytes. Whatever they are the server answers whole frames or closes, holds
// nothing afterwards, and serves others.
func FuzzConnection(f *testing.F) {
	for _, a := range allAPIs() {
		for _, v := range []int16{a.served.Min, a.served.Max} {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			f.Add(wire.FormatRequest(req, "c", 1))
		}
	}
	metadata := metadataFor("foo", "bar")
	metadata.SetVersion(9)
	produce := produceTo("foo", 0, 1, batchOf(f, recordbatch.BuildOptions{}, "a"))
	produce.SetVersion(9)
	f.Add(append(wire.FormatRequest(metadata, "c", 1), wire.FormatRequest(produce, "c", 2)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(frameOf(1<<31 - 1))
	f.Fuzz(func(t *testing.T, in []byte) {
		ts := newTestServer(t, nil)
		ts.controller.create = creates(0)
		ts.controller.remove, ts.controller.reserve = refuseDelete, refuseReserve
		c := ts.pipe("PLAINTEXT")
		go func() {
			_, _ = c.Write(in)
			ts.interruptReads()
		}()
		out, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		for r := bytes.NewReader(out); r.Len() > 0; {
			if _, err := wire.ReadFrame(r, len(out)); err != nil {
				t.Fatalf("answers that are no frames: %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := ts.Shutdown(ctx); err != nil {
			t.Fatalf("a connection is left over: %v", err)
		}
		if ts.inFlight.left != ts.limits.InFlightBytesMax {
			t.Fatal("bytes are held for ever")
		}
		for _, line := range ts.logged.all() {
			if strings.Contains(line, "panic") {
				t.Fatal(line)
			}
		}
	})
}
