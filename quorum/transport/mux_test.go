package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// muxUnderTest serves a real socket, with its log in memory.
type muxUnderTest struct {
	*Mux
	log  *syncBuffer
	grpc net.Listener
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func serveMux(t *testing.T) *muxUnderTest {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	m := NewMux(l, hclog.New(&hclog.LoggerOptions{Output: log}))
	served := make(chan error, 1)
	go func() { served <- m.Serve() }()
	t.Cleanup(func() {
		m.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &muxUnderTest{Mux: m, log: log, grpc: m.GRPC()}
}

func (m *muxUnderTest) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", m.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStrangersGetOneClearLineAndAreClosed(t *testing.T) {
	cases := map[string]struct{ sends, logs, answer string }{
		"tls":     {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a TLS client", "\x15\x03\x01"},
		"http":    {"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP/1 client", "HTTP/1.1 400"},
		"kafka":   {"\x00\x00\x00\x1a\x00\x12\x00\x03\x00\x00", "a Kafka client", ""},
		"2 GiB":   {"\x7f\xff\xff\xff\x00\x12", "a stranger", ""},
		"garbage": {"\xde\xad\xbe\xef\xde\xad", "a stranger", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := serveMux(t)
			for range 3 {
				conn := m.dial(t)
				if _, err := conn.Write([]byte(c.sends)); err != nil {
					t.Fatal(err)
				}
				answer, _ := io.ReadAll(conn) // ends when the mux closes; a reset is an end too
				if !strings.HasPrefix(string(answer), c.answer) {
					t.Errorf("answered %q, want %q", answer, c.answer)
				}
			}
			if got := strings.Count(m.log.String(), c.logs); got != 1 {
				t.Errorf("%d lines with %q for three connections, want 1:\n%s", got, c.logs, m.log)
			}
		})
	}
}

func TestGRPCConnectionsKeepTheirFirstBytes(t *testing.T) {
	m := serveMux(t)
	const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := m.dial(t).Write([]byte(hello)); err != nil {
		t.Fatal(err)
	}
	conn, err := m.grpc.Accept()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(hello))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != hello {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestMuxClosesWhatItGaveAway(t *testing.T) {
	m := serveMux(t)
	client := m.dial(t)
	if _, err := client.Write([]byte("PRI * ")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.grpc.Accept(); err != nil {
		t.Fatal(err)
	}
	half := m.dial(t) // says nothing
	m.Close()
	for _, c := range []net.Conn{client, half} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection outlived the mux")
		}
	}
}

// TestFloodOfSilentConnectionsIsBounded: connections beyond the bound are closed at once; the others time out.
func TestFloodOfSilentConnectionsIsBounded(t *testing.T) {
	m := serveMux(t)
	for range pendingMax {
		m.dial(t)
	}
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(m.log.String(), "too many connections") {
		if time.Now().After(deadline) {
			t.Fatal("the flood was never noticed")
		}
		c := m.dial(t)
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) //nolint:errcheck // a socket
		c.Read(make([]byte, 1))                                  //nolint:errcheck // it is closed, or it is pending
	}
	if n := len(m.pending); n > pendingMax {
		t.Errorf("%d connections are pending, at most %d may be", n, pendingMax)
	}
}

func TestHalfAPreambleIsClosedInTime(t *testing.T) {
	m := serveMux(t)
	layer := NewLayer(gateOf(one, standing(1), true), &AddressBook{}, nil)
	m.HandleRaft(layer.Admit)
	conn := m.dial(t)
	if _, err := conn.Write(Preamble{Standing: standing(1), From: two, To: one}.Encode()[:20]); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := io.ReadAll(conn); err != nil {
		t.Logf("closed with %v", err)
	}
	if took := time.Since(start); took > 3*handshakeTimeout {
		t.Errorf("it was closed after %s only", took)
	}
}

// pair connects two layers over two muxes.
func pair(t *testing.T) (near, far *Layer) {
	t.Helper()
	m := serveMux(t)
	far = NewLayer(gateOf(two, standing(5), true), &AddressBook{}, nil)
	m.HandleRaft(far.Admit)
	book := &AddressBook{Bootstrap: []string{"127.0.0.1:1", m.Addr().String()}}
	return NewLayer(gateOf(one, standing(5), true), book, nil), far
}

func TestDialFindsThePeerAmongBootstrapServers(t *testing.T) {
	near, far := pair(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := far.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	conn, err := near.Dial(two.ServerAddress(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other := <-accepted
	defer other.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(other, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if p := near.Problems(); len(p) != 0 {
		t.Errorf("problems after a dial that succeeded: %v", p)
	}
}

func TestDialOfAnotherDirectoryIsRefused(t *testing.T) {
	near, _ := pair(t)
	wiped := two
	wiped.Directory[15] = 1
	_, err := near.Dial(wiped.ServerAddress(), 5*time.Second)
	if !IsRefused(err, WrongTarget) {
		t.Fatalf("%v, want a refusal", err)
	}
	if _, known := near.Problems()[wiped]; !known {
		t.Error("the problem is not remembered")
	}
}

// TestPreVoteSurvivesTheWrapper: raft asks the concrete type for it, and goes without where it is missing.
func TestPreVoteSurvivesTheWrapper(t *testing.T) {
	layer := NewLayer(gateOf(one, standing(1), true), &AddressBook{}, nil)
	var n raft.Transport = NewNetwork(layer, hclog.NewNullLogger())
	if _, ok := n.(raft.WithPreVote); !ok {
		t.Error("no pre-vote")
	}
	closer, ok := n.(raft.WithClose)
	if !ok {
		t.Fatal("no close")
	}
	if got := n.LocalAddr(); got != one.ServerAddress() {
		t.Errorf("local address %s", got)
	}
	if _, err := n.AppendEntriesPipeline(two.ServerID(), two.ServerAddress()); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("pipelining: %v", err)
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
}
