package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/skiffmq/skiff/fsm"
)

// Bounds of the handshake. A message is read whole before it is judged, so its size must be small.
const (
	// handshakeVersion is the version of both messages; a reader that does not know it refuses.
	handshakeVersion = 1
	// handshakeHeaderBytes are magic, version and body length.
	handshakeHeaderBytes = 8
	// handshakeBodyMax bounds the body: the longest legal one has less than 1,200 bytes.
	handshakeBodyMax = 2048
	// ancestorsMax is how many ancestors a node names, the newest ones: a node that is older than that is refused, and is
	// not told that it was superseded.
	ancestorsMax = 16
	// nameBytesMax bounds a cluster id and a peer id.
	nameBytesMax = 64
	// refusalBytesMax bounds the sentence of a refusal; a longer one is cut.
	refusalBytesMax = 512
)

// Magic of the two messages. The first byte is one that no HTTP/2, HTTP/1, TLS or Kafka client begins with.
var (
	preambleMagic = [4]byte{0xF5, 'S', 'R', 'P'}
	answerMagic   = [4]byte{0xF5, 'S', 'R', 'A'}
	castagnoli    = crc32.MakeTable(crc32.Castagnoli)
)

// Errors of the handshake's decoders.
var (
	// ErrHandshake is returned when bytes are not a handshake message.
	ErrHandshake = errors.New("not a Raft handshake")
	// ErrHandshakeVersion is returned when the message is of a version that this build does not know.
	ErrHandshakeVersion = errors.New("unknown handshake version")
)

// Standing is what a node says of itself in either message.
type Standing struct {
	// ClusterID of the cluster that the node belongs to; empty if it is not initialised.
	ClusterID string
	// Lineage of the node's image.
	Lineage fsm.LineageID
	// Ancestors of the lineage, oldest first, at most ancestorsMax of the newest. Shared: never written.
	Ancestors []fsm.Ancestor
	// Claimed tells that the image holds a committed claim of that lineage. Only such a lineage supersedes another.
	Claimed bool
	// LastIndex is the index of the last entry in the node's log or snapshot.
	LastIndex uint64
}

// Preamble opens a Raft connection.
type Preamble struct {
	Standing
	// From is the dialing node.
	From PeerID
	// To is the node that is meant.
	To PeerID
}

// Verdict is the acceptor's decision about a Preamble.
type Verdict uint8

// Verdicts. Their numbers are on the wire.
const (
	// Accepted: Raft messages may follow.
	Accepted Verdict = 0
	// WrongCluster: the two nodes belong to different clusters.
	WrongCluster Verdict = 1
	// WrongTarget: the acceptor is not the node that was meant.
	WrongTarget Verdict = 2
	// LineageBehind: the dialer's lineage is older than the acceptor's.
	LineageBehind Verdict = 3
	// LineageForeign: the dialer's lineage is newer than the acceptor's, or of the same number and another uuid.
	LineageForeign Verdict = 4
	// LostEntries: the dialer's log ends before what it acknowledged to the acceptor as committed.
	LostEntries Verdict = 5
	// Unformatted: the acceptor has not been initialised.
	Unformatted Verdict = 6
	// NotServing: the acceptor is starting or stopping; try again.
	NotServing Verdict = 7
)

// String names the verdict for logs.
func (v Verdict) String() string {
	names := [...]string{"accepted", "wrong cluster", "wrong target", "lineage behind", "lineage foreign", "lost entries", "unformatted", "not serving"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// Answer is the acceptor's reply to a Preamble.
type Answer struct {
	Standing
	// Verdict of the acceptor.
	Verdict Verdict
	// Self is who the acceptor is; zero if it does not say.
	Self PeerID
	// Refusal is a sentence with both values; empty when accepted.
	Refusal string
}

// Encode gives the bytes of the preamble.
func (p Preamble) Encode() []byte {
	b := newMessage(preambleMagic)
	b = appendStanding(b, p.Standing)
	b = appendName(b, p.From.String())
	b = appendName(b, p.To.String())
	return seal(b)
}

// Encode gives the bytes of the answer.
func (a Answer) Encode() []byte {
	b := newMessage(answerMagic)
	b = append(b, byte(a.Verdict))
	b = appendStanding(b, a.Standing)
	self := ""
	if !a.Self.IsZero() {
		self = a.Self.String()
	}
	b = appendName(b, self)
	refusal := a.Refusal[:min(len(a.Refusal), refusalBytesMax)]
	b = binary.BigEndian.AppendUint16(b, uint16(len(refusal)))
	return seal(append(b, refusal...))
}

// ReadPreamble reads one preamble and not a byte more.
func ReadPreamble(r io.Reader) (Preamble, error) {
	body, err := readMessage(r, preambleMagic)
	if err != nil {
		return Preamble{}, err
	}
	d := fields{rest: body}
	p := Preamble{Standing: d.standing(), From: d.peer(), To: d.peer()}
	return p, d.end()
}

// ReadAnswer reads one answer and not a byte more.
func ReadAnswer(r io.Reader) (Answer, error) {
	body, err := readMessage(r, answerMagic)
	if err != nil {
		return Answer{}, err
	}
	d := fields{rest: body}
	a := Answer{Verdict: Verdict(d.byte()), Standing: d.standing(), Self: d.optionalPeer()}
	a.Refusal = string(d.take(int(d.uint16())))
	return a, d.end()
}

func newMessage(magic [4]byte) []byte {
	b := make([]byte, 0, 256)
	b = append(b, magic[:]...)
	b = binary.BigEndian.AppendUint16(b, handshakeVersion)
	return append(b, 0, 0) // the body's length, set by seal
}

// seal completes a message: the length of its body and the checksum over everything before it.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint16(b[6:], uint16(len(b)-handshakeHeaderBytes))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func appendStanding(b []byte, s Standing) []byte {
	b = appendName(b, s.ClusterID)
	b = binary.BigEndian.AppendUint64(b, s.Lineage.Number)
	b = append(b, s.Lineage.UUID[:]...)
	var flags byte
	if s.Claimed {
		flags |= flagClaimed
	}
	if len(s.Ancestors) > 0 {
		flags |= flagAncestors
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, s.LastIndex)
	return appendAncestors(b, s.Ancestors)
}

// appendAncestors appends the newest ancestors; nothing if there are none.
func appendAncestors(b []byte, list []fsm.Ancestor) []byte {
	if len(list) == 0 {
		return b
	}
	list = list[max(0, len(list)-ancestorsMax):]
	b = append(b, byte(len(list)))
	for _, a := range list {
		b = append(b, a.UUID[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(a.ForkOffset))
	}
	return b
}

// Flags of a Standing.
const (
	flagClaimed = 1
	// flagAncestors: a list of ancestors follows. A lineage without ancestors is written as it was before there were any.
	flagAncestors = 2
)

// appendName appends a short string. Longer ones than the bound cannot be: ids are checked where they enter.
func appendName(b []byte, s string) []byte {
	s = s[:min(len(s), nameBytesMax)]
	return append(append(b, byte(len(s))), s...)
}

// readMessage reads header, body and checksum, and gives the body.
func readMessage(r io.Reader, magic [4]byte) ([]byte, error) {
	head := make([]byte, handshakeHeaderBytes, handshakeHeaderBytes+256)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("read handshake header: %w", err)
	}
	if [4]byte(head[:4]) != magic {
		return nil, fmt.Errorf("%w: it begins with % x, not % x", ErrHandshake, head[:4], magic[:])
	}
	if v := binary.BigEndian.Uint16(head[4:]); v != handshakeVersion {
		return nil, fmt.Errorf("%w: theirs is %d, ours is %d", ErrHandshakeVersion, v, handshakeVersion)
	}
	size := int(binary.BigEndian.Uint16(head[6:]))
	if size > handshakeBodyMax {
		return nil, fmt.Errorf("%w: a body of %d bytes, at most %d are allowed", ErrHandshake, size, handshakeBodyMax)
	}
	message := append(head, make([]byte, size+crc32.Size)...)
	if _, err := io.ReadFull(r, message[handshakeHeaderBytes:]); err != nil {
		return nil, fmt.Errorf("read handshake body: %w", err)
	}
	end := len(message) - crc32.Size
	want, got := binary.BigEndian.Uint32(message[end:]), crc32.Checksum(message[:end], castagnoli)
	if want != got {
		return nil, fmt.Errorf("%w: checksum %08x, computed %08x", ErrHandshake, want, got)
	}
	return message[handshakeHeaderBytes:end], nil
}

// fields reads a body from front to back and remembers the first fault.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s", ErrHandshake, fmt.Sprintf(format, args...))
	}
}

func (f *fields) take(n int) []byte {
	if f.err != nil {
		return nil
	}
	if n > len(f.rest) {
		f.fail("a field of %d bytes where %d are left", n, len(f.rest))
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) uint16() uint16 {
	if b := f.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (f *fields) uint64() uint64 {
	if b := f.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (f *fields) name() string {
	n := int(f.byte())
	if n > nameBytesMax {
		f.fail("a name of %d bytes, at most %d are allowed", n, nameBytesMax)
	}
	return string(f.take(n))
}

func (f *fields) uuid() (u fsm.UUID) {
	copy(u[:], f.take(len(u)))
	return u
}

func (f *fields) standing() Standing {
	s := Standing{ClusterID: f.name(), Lineage: fsm.LineageID{Number: f.uint64(), UUID: f.uuid()}}
	flags := f.byte()
	if flags&^(flagClaimed|flagAncestors) != 0 {
		f.fail("unknown flags %08b", flags)
	}
	s.Claimed = flags&flagClaimed != 0
	s.LastIndex = f.uint64()
	if flags&flagAncestors != 0 {
		s.Ancestors = f.ancestors()
	}
	return s
}

func (f *fields) ancestors() []fsm.Ancestor {
	n := int(f.byte())
	if f.err == nil && (n == 0 || n > ancestorsMax) {
		f.fail("%d ancestors, 1 to %d are allowed", n, ancestorsMax)
	}
	var list []fsm.Ancestor
	for range n {
		if f.err != nil {
			return nil
		}
		a := fsm.Ancestor{UUID: f.uuid(), ForkOffset: int64(f.uint64())}
		if a.ForkOffset < 0 {
			f.fail("fork offset %d is negative", a.ForkOffset)
		}
		list = append(list, a)
	}
	return list
}

func (f *fields) peer() PeerID {
	name := f.name()
	if f.err != nil {
		return PeerID{}
	}
	peer, err := ParsePeerID(name)
	if err != nil {
		f.fail("%v", err)
	} else if peer.String() != name {
		f.fail("peer id %q is not written as %q", name, peer)
	}
	return peer
}

// optionalPeer reads a peer id that may be empty.
func (f *fields) optionalPeer() PeerID {
	if f.err == nil && len(f.rest) > 0 && f.rest[0] == 0 {
		f.byte()
		return PeerID{}
	}
	return f.peer()
}

// end gives the first fault, or the fault of bytes that nobody asked for.
func (f *fields) end() error {
	if f.err == nil && len(f.rest) > 0 {
		f.fail("%d bytes too many", len(f.rest))
	}
	return f.err
}
