package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
)

// endpoint is one node's transport on loopback.
type endpoint struct {
	self     PeerID
	layer    *Layer
	network  *Network
	listener net.Listener
	lost     chan PeerID

	mu    sync.Mutex
	conns []net.Conn // accepted; guarded by mu
}

// newEndpoint starts a transport that finds the others in the book.
func newEndpoint(t *testing.T, id int32, book *AddressBook) *endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{self: PeerID{NodeID: id, Directory: fsm.UUID{byte(id)}}, listener: listener, lost: make(chan PeerID, 16)}
	gate := &Gate{Self: e.self, Standing: func() (Standing, bool) { return Standing{ClusterID: "c"}, true }, Acked: NewAcknowledged()}
	e.layer = NewLayer(gate, book, nil)
	e.layer.OnLost(func(p PeerID) { e.lost <- p })
	e.network = NewNetwork(e.layer, hclog.NewNullLogger())
	var accepting sync.WaitGroup
	accepting.Go(e.accept)
	t.Cleanup(func() {
		e.network.Close()
		listener.Close()
		accepting.Wait()
	})
	return e
}

func (e *endpoint) accept() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.mu.Lock()
		e.conns = append(e.conns, conn)
		e.mu.Unlock()
		if e.layer.Admit(conn) != nil {
			return
		}
	}
}

// drop ends every connection that was accepted.
func (e *endpoint) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		c.Close()
	}
	e.conns = nil
}

// answer answers every request until the test ends.
func (e *endpoint) answer(t *testing.T) {
	done := make(chan struct{})
	var answering sync.WaitGroup
	t.Cleanup(func() {
		close(done)
		answering.Wait()
	})
	answering.Go(func() {
		for {
			select {
			case rpc := <-e.network.Consumer():
				switch rpc.Command.(type) {
				case *raft.RequestVoteRequest:
					rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
				case *raft.TimeoutNowRequest:
					rpc.Respond(&raft.TimeoutNowResponse{}, nil)
				default:
					rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
				}
			case <-done:
				return
			}
		}
	})
}

func endpoints(t *testing.T) (a, b *endpoint) {
	t.Helper()
	book := &AddressBook{Overrides: map[int32]string{}}
	a, b = newEndpoint(t, 1, book), newEndpoint(t, 2, book)
	book.Overrides[1], book.Overrides[2] = a.listener.Addr().String(), b.listener.Addr().String()
	a.answer(t)
	b.answer(t)
	return a, b
}

func header(e *endpoint) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: protocolVersion, ID: []byte(e.self.String()), Addr: []byte(e.self.String())}
}

// TestVoteIsNotLostWithAnOldConnection: connections that were kept from before the peer started anew cost no vote.
func TestVoteIsNotLostWithAnOldConnection(t *testing.T) {
	a, b := endpoints(t)
	ask := func(term uint64) error {
		var resp raft.RequestVoteResponse
		err := a.network.RequestVote(b.self.ServerID(), b.self.ServerAddress(), &raft.RequestVoteRequest{RPCHeader: header(a), Term: term}, &resp)
		if err == nil && !resp.Granted {
			err = errors.New("not granted")
		}
		return err
	}
	var asking sync.WaitGroup
	for range poolMax { // at once, so that more than one connection is kept
		asking.Go(func() {
			if err := ask(2); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	b.drop()
	if err := ask(3); err != nil {
		t.Errorf("after the peer's end of every connection was closed: %v", err)
	}
}

// TestLeaderIsHeardAndItsEndIsTold: who sends entries is the leader of their term, and the end of its connection is told.
func TestLeaderIsHeardAndItsEndIsTold(t *testing.T) {
	a, b := endpoints(t)
	send := func(term uint64) {
		t.Helper()
		req := &raft.AppendEntriesRequest{RPCHeader: header(a), Term: term}
		if err := a.network.AppendEntries(b.self.ServerID(), b.self.ServerAddress(), req, &raft.AppendEntriesResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	send(4)
	send(3) // of a leader that was deposed
	if got := b.network.Heard(); got != (Heard{Leader: a.self, Term: 4}) {
		t.Errorf("heard %+v", got)
	}
	if got := a.network.Heard(); got != (Heard{}) {
		t.Errorf("the sender heard %+v", got)
	}
	a.network.CloseStreams()
	select {
	case peer := <-b.lost:
		if peer != a.self {
			t.Errorf("%s was lost", peer)
		}
	case <-time.After(10 * time.Second):
		t.Error("the end of the connection was not told")
	}
}

// TestRefusesOnlyWhereNobodyListens: every address must refuse.
func TestRefusesOnlyWhereNobodyListens(t *testing.T) {
	a, b := endpoints(t)
	if a.layer.Refuses(t.Context(), b.self) {
		t.Error("it listens")
	}
	b.listener.Close()
	if !a.layer.Refuses(t.Context(), b.self) {
		t.Error("nobody listens")
	}
	stranger := PeerID{NodeID: 9}
	if a.layer.Refuses(t.Context(), stranger) {
		t.Error("an unknown address refused")
	}
	a.layer.book.Bootstrap = []string{b.listener.Addr().String(), a.listener.Addr().String()}
	if a.layer.Refuses(t.Context(), stranger) {
		t.Error("one of two addresses is listened at")
	}
	a.layer.dial = func(context.Context, string) (net.Conn, error) { return nil, syscall.ETIMEDOUT }
	if a.layer.Refuses(t.Context(), b.self) {
		t.Error("silence is no refusal")
	}
}

// TestCampaignReachesRaftOrEnds: the request is taken by whoever consumes, or given up with its context or transport.
func TestCampaignReachesRaftOrEnds(t *testing.T) {
	a, _ := endpoints(t)
	if err := a.network.Campaign(t.Context(), a.self); err != nil {
		t.Error(err)
	}
	deaf := newEndpoint(t, 3, &AddressBook{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := deaf.network.Campaign(ctx, deaf.self); err == nil {
		t.Error("nobody took it")
	}
	deaf.network.Close()
	if err := deaf.network.Campaign(t.Context(), deaf.self); err == nil {
		t.Error("the transport is closed")
	}
}
