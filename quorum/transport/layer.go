package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// handshakeTimeout bounds a handshake on either side: sniffing, preamble and answer.
const handshakeTimeout = 3 * time.Second

// DialFunc connects to host:port; nil stands for TCP with the name resolved at each call.
type DialFunc func(ctx context.Context, address string) (net.Conn, error)

// Problem is why a peer cannot be reached.
type Problem struct {
	// Since is when the first of the failed dials in a row was made.
	Since time.Time
	// Err is the last failure.
	Err error
}

// Layer is the raft.StreamLayer: connections whose handshake has succeeded.
type Layer struct {
	gate *Gate
	book *AddressBook
	dial DialFunc

	accepted chan net.Conn
	closed   chan struct{}
	closing  sync.Once

	// refused is told of the problems after a peer has refused this node, on the goroutine that dialed.
	refused func(map[PeerID]Problem)
	// superseded is told of the first peer whose lineage has taken the place of this node's.
	superseded func(Successor)
	// lost is told of each connection that its peer has ended, on the goroutine that read or wrote.
	lost func(PeerID)

	mu       sync.Mutex
	problems map[PeerID]Problem // guarded by mu; only members of Raft's configuration are dialed
}

// NewLayer gives a layer for the node that the gate speaks for.
func NewLayer(gate *Gate, book *AddressBook, dial DialFunc) *Layer {
	if dial == nil {
		dial = dialTCP
	}
	return &Layer{
		gate: gate, book: book, dial: dial,
		accepted: make(chan net.Conn), closed: make(chan struct{}),
		problems: make(map[PeerID]Problem),
	}
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

var _ raft.StreamLayer = (*Layer)(nil)

// OnRefused sets who is told, after each dial that a peer refused, which peers cannot be reached and why. It is called
// before the layer is used.
func (l *Layer) OnRefused(f func(map[PeerID]Problem)) { l.refused = f }

// OnSuperseded sets who is told when a peer's lineage has taken the place of this node's, on the goroutine that shook
// hands, at each such handshake. It is called before the layer is used.
func (l *Layer) OnSuperseded(f func(Successor)) { l.superseded = f }

// OnLost sets who is told when a peer ends a connection. It does not block, and is set before the layer is used.
func (l *Layer) OnLost(f func(PeerID)) { l.lost = f }

// Admit takes a connection whose first bytes are a preamble's: it judges, answers and, if accepted, hands the
// connection to Raft. It closes every other one. The error says why a connection was not handed over.
func (l *Layer) Admit(conn net.Conn) error {
	var peer PeerID
	err := Welcome(conn, func(p Preamble) Answer {
		peer = p.From
		l.compare(p.From, p.Standing)
		return l.gate.Judge(p)
	})
	if err != nil {
		conn.Close()
		return err
	}
	select {
	case l.accepted <- l.watch(conn, peer):
		return nil
	case <-l.closed:
		conn.Close()
		return net.ErrClosed
	}
}

// Welcome reads the preamble of a connection and answers it with what judge says. It returns nil if the connection
// was accepted, and leaves closing to the caller.
func Welcome(conn net.Conn, judge func(Preamble) Answer) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return fmt.Errorf("set handshake deadline: %w", err)
	}
	preamble, err := ReadPreamble(conn)
	if err != nil {
		return err
	}
	answer := judge(preamble)
	if _, err := conn.Write(answer.Encode()); err != nil {
		return fmt.Errorf("answer %s: %w", preamble.From, err)
	}
	if answer.Verdict != Accepted {
		return &RefusedError{Peer: preamble.From, Verdict: answer.Verdict, Theirs: preamble.Standing, Reason: answer.Refusal}
	}
	return conn.SetDeadline(time.Time{})
}

// Accept gives the next connection that was admitted.
func (l *Layer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close stops Accept. Connections that were handed over belong to Raft.
func (l *Layer) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

// Addr is the node's identity, which Raft writes down as its address and as its vote.
func (l *Layer) Addr() net.Addr { return peerAddr(l.gate.Self) }

// Dial connects to the peer that the address names and shakes hands, trying each address that the book gives.
func (l *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	peer, err := ParsePeerID(string(address))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	stop := l.cancelOnClose(cancel)
	defer stop()
	conn, err := l.dialAny(ctx, peer)
	l.note(peer, err)
	var refused *RefusedError
	if l.refused != nil && errors.As(err, &refused) {
		l.refused(l.Problems())
	}
	return conn, err
}

// cancelOnClose cancels when the layer closes, until the function that it returns is called.
func (l *Layer) cancelOnClose(cancel context.CancelFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-l.closed:
			cancel()
		case <-done:
		}
	}()
	return func() { close(done) }
}

func (l *Layer) dialAny(ctx context.Context, peer PeerID) (net.Conn, error) {
	addresses := l.book.Lookup(peer)
	if len(addresses) == 0 {
		return nil, fmt.Errorf("no address is known for peer %s; name it with --peer %d=host:port", peer, peer.NodeID)
	}
	var failures []error
	for _, address := range addresses {
		conn, err := l.dialOne(ctx, peer, address)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, fmt.Errorf("dial %s: %w", address, err))
	}
	return nil, errors.Join(failures...)
}

func (l *Layer) dialOne(ctx context.Context, peer PeerID, address string) (net.Conn, error) {
	conn, err := l.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := l.greet(conn, peer); err != nil {
		conn.Close()
		return nil, err
	}
	return l.watch(conn, peer), nil
}

// Refuses tells whether nobody listens where the peer is reached: every address that the book gives answers a new
// connection with ECONNREFUSED, which only a system says whose process is gone. Silence is no answer.
func (l *Layer) Refuses(ctx context.Context, peer PeerID) bool {
	addresses := l.book.Lookup(peer)
	for _, address := range addresses {
		conn, err := l.dial(ctx, address)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return len(addresses) > 0
}

// greet is the dialer's side of the handshake.
func (l *Layer) greet(conn net.Conn, peer PeerID) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return fmt.Errorf("set handshake deadline: %w", err)
	}
	ours, _ := l.gate.Standing()
	preamble := Preamble{Standing: ours, From: l.gate.Self, To: peer}
	if _, err := conn.Write(preamble.Encode()); err != nil {
		return fmt.Errorf("send preamble: %w", err)
	}
	answer, err := ReadAnswer(conn)
	if err != nil {
		return fmt.Errorf("wait for the answer to the preamble: %w", err)
	}
	l.compare(answer.Self, answer.Standing)
	if err := l.gate.judgeAnswer(peer, answer); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

func (l *Layer) note(peer PeerID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.problems, peer)
		return
	}
	problem, known := l.problems[peer]
	if !known {
		problem.Since = time.Now()
	}
	problem.Err = err
	l.problems[peer] = problem
}

// Problems gives the peers whose last dial failed.
func (l *Layer) Problems() map[PeerID]Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.problems)
}
