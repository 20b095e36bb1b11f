package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/fsm"
)

var (
	one = PeerID{NodeID: 101, Directory: fsm.UUID{1}}
	two = PeerID{NodeID: 102, Directory: fsm.UUID{2}}
)

func standing(last uint64) Standing {
	return Standing{
		ClusterID: fsm.UUID{9}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{8}},
		Claimed: true, LastIndex: last,
	}
}

func TestHandshakeMessagesRoundTrip(t *testing.T) {
	p := Preamble{Standing: standing(7), From: one, To: two}
	if got, err := ReadPreamble(bytes.NewReader(p.Encode())); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("preamble %+v, %v; want %+v", got, err, p)
	}
	for _, a := range []Answer{
		{Standing: standing(3), Self: two},
		{Verdict: WrongCluster, Refusal: "no"},
		{Standing: standing(3), Verdict: LostEntries, Self: two, Refusal: strings.Repeat("x", refusalBytesMax)},
	} {
		if got, err := ReadAnswer(bytes.NewReader(a.Encode())); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("answer %+v, %v; want %+v", got, err, a)
		}
	}
}

func TestHandshakeReadsNotAByteMore(t *testing.T) {
	r := bytes.NewReader(append(Preamble{Standing: standing(7), From: one, To: two}.Encode(), "raft"...))
	if _, err := ReadPreamble(r); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "raft" {
		t.Errorf("left %q", rest)
	}
}

// reseal makes a message of a changed body valid again but for the change.
func reseal(b []byte) []byte {
	b = b[:len(b)-crc32.Size]
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func TestHandshakeRefusesWhatItDoesNotKnow(t *testing.T) {
	good := Preamble{Standing: standing(7), From: one, To: two}.Encode()
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	cases := map[string]struct {
		bytes []byte
		want  error
	}{
		"newer version": {change(func(b []byte) []byte { b[5]++; return reseal(b) }), ErrHandshakeVersion},
		"other magic":   {change(func(b []byte) []byte { b[3]++; return reseal(b) }), ErrHandshake},
		"a flipped bit": {change(func(b []byte) []byte { b[20] ^= 4; return b }), ErrHandshake},
		"long body":     {change(func(b []byte) []byte { b[6], b[7] = 0xff, 0xff; return b }), ErrHandshake},
		"cut short":     {good[:len(good)-5], io.ErrUnexpectedEOF},
		"unknown flag": {change(func(b []byte) []byte {
			b[handshakeHeaderBytes+1+22+8+16] |= 2
			return reseal(b)
		}), ErrHandshake},
		"bytes too many": {change(func(b []byte) []byte {
			b = append(b[:len(b)-4], 0, 0, 0, 0, 0)
			b[7]++
			return reseal(b)
		}), ErrHandshake},
	}
	for name, c := range cases {
		if _, err := ReadPreamble(bytes.NewReader(c.bytes)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestPeerIDsRoundTripAndRefuse(t *testing.T) {
	if got, err := ParsePeerID(one.String()); err != nil || got != one {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "101", "-1." + fsm.UUID{1}.String(), "x." + fsm.UUID{1}.String(), "101.short", "99999999999." + fsm.UUID{1}.String()} {
		if _, err := ParsePeerID(bad); !errors.Is(err, ErrPeerID) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzReadPreamble: whatever is accepted encodes to the bytes that were read, and a decoder never reads beyond them.
func FuzzReadPreamble(f *testing.F) {
	f.Add(Preamble{Standing: standing(7), From: one, To: two}.Encode())
	f.Add(Preamble{From: one, To: two}.Encode())
	f.Add([]byte("\xf5SRP\x00\x01\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		p, err := ReadPreamble(r)
		if err != nil {
			return
		}
		read := data[:len(data)-r.Len()]
		if !bytes.Equal(p.Encode(), read) {
			t.Fatalf("%+v encodes to % x, read from % x", p, p.Encode(), read)
		}
	})
}

// FuzzReadAnswer is the same for what a dialer reads.
func FuzzReadAnswer(f *testing.F) {
	f.Add(Answer{Standing: standing(3), Self: two}.Encode())
	f.Add(Answer{Verdict: WrongTarget, Refusal: "you mean another"}.Encode())
	f.Add([]byte("\xf5SRA\x00\x01\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		a, err := ReadAnswer(r)
		if err != nil {
			return
		}
		again, err := ReadAnswer(bytes.NewReader(a.Encode()))
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Fatalf("%+v reads again as %+v, %v", a, again, err)
		}
	})
}
