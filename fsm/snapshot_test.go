package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func snapshotOf(tb reporter, img *Image) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := WriteSnapshot(img, &b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// readers are the two that must find every fault of a stream.
var readers = map[string]func([]byte) error{
	"read": func(stream []byte) error {
		_, err := ReadSnapshot(bytes.NewReader(stream))
		return err
	},
	"inspect": func(stream []byte) error {
		_, err := InspectSnapshot(bytes.NewReader(stream), 10)
		return err
	},
	"unchecked": func(stream []byte) error {
		_, err := ReadSnapshotUnchecked(bytes.NewReader(stream))
		return err
	},
	"verify": func(stream []byte) error {
		v := NewSnapshotVerifier()
		if _, err := v.Write(stream); err != nil {
			return err
		}
		return v.Close()
	},
}

// damages calls f with every stream that differs from the given one in one flipped byte, and with every one that is
// cut short. It returns how many there were.
func damages(stream []byte, f func(what string, damaged []byte)) int {
	n := 0
	for _, mask := range []byte{0x01, 0xff} {
		for i := range stream {
			damaged := bytes.Clone(stream)
			damaged[i] ^= mask
			f(fmt.Sprintf("byte %d of %d xor %02x", i, len(stream), mask), damaged)
			n++
		}
	}
	for i := range stream {
		f(fmt.Sprintf("cut to %d of %d bytes", i, len(stream)), stream[:i:i])
		n++
	}
	return n
}

// TestSnapshotDamageIsFound flips every byte and cuts at every byte; nothing may be read.
func TestSnapshotDamageIsFound(t *testing.T) {
	stream := snapshotOf(t, fullImage(t))
	for name, read := range readers {
		if err := read(stream); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n := damages(stream, func(what string, damaged []byte) {
			if read(damaged) == nil {
				t.Errorf("%s: %s was not found", name, what)
			}
		})
		t.Logf("%s: %d damaged streams of %d bytes", name, n, len(stream))
	}
}

// TestDamageSearchFindsWeakReaders plants formats with weak checks: the search above must tell that they miss
// something, or it would prove nothing.
func TestDamageSearchFindsWeakReaders(t *testing.T) {
	sound := snapshotOf(t, soundImage(t))
	always := func(frameHead, []byte) bool { return true }
	payloadOnly := func(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }
	for _, weak := range []struct {
		name   string
		stream []byte
		read   func([]byte) error
	}{
		{"no checksum", sound, func(s []byte) error { return frames(s, always) }},
		{"a checksum of 8 bits", rechecksum(t, sound, func(_ frameHead, payload []byte) uint32 { return payloadOnly(payload) & 0xff }),
			func(s []byte) error {
				return frames(s, func(h frameHead, payload []byte) bool { return payloadOnly(payload)&0xff == h.crc&0xff })
			}},
		{"a checksum that does not cover the head", rechecksum(t, sound, func(_ frameHead, payload []byte) uint32 { return payloadOnly(payload) }),
			func(s []byte) error {
				return frames(s, func(h frameHead, payload []byte) bool { return payloadOnly(payload) == h.crc })
			}},
		{"no trailer needed", sound, func(s []byte) error {
			return frames(s, func(h frameHead, payload []byte) bool { return h.verify(payload) == nil })
		}},
	} {
		if err := weak.read(weak.stream); err != nil {
			t.Fatalf("%s: %v", weak.name, err)
		}
		missed := 0
		n := damages(weak.stream, func(_ string, damaged []byte) {
			if weak.read(damaged) == nil {
				missed++
			}
		})
		if missed == 0 {
			t.Errorf("the search finds nothing wrong with a format with %s", weak.name)
		}
		t.Logf("%s: misses %d of %d", weak.name, missed, n)
	}
}

// rechecksum gives every frame another kind of checksum.
func rechecksum(tb reporter, stream []byte, checksum func(frameHead, []byte) uint32) []byte {
	out := bytes.Clone(stream[:preambleBytes])
	err := frames(stream, func(h frameHead, payload []byte) bool {
		out = append(out, byte(h.kind))
		out = binary.BigEndian.AppendUint32(out, h.length)
		out = binary.BigEndian.AppendUint32(out, checksum(h, payload))
		out = append(out, payload...)
		return true
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

var errFrame = errors.New("frame is not accepted")

// frames splits a stream with a reader's own idea of what a good frame is.
func frames(s []byte, good func(frameHead, []byte) bool) error {
	if len(s) < preambleBytes {
		return ErrSnapshotTruncated
	}
	for s = s[preambleBytes:]; len(s) > 0; {
		if len(s) < frameHeadBytes {
			return ErrSnapshotTruncated
		}
		h := frameHead{kind: frameKind(s[0]), length: binary.BigEndian.Uint32(s[1:5]), crc: binary.BigEndian.Uint32(s[5:9])}
		if uint64(h.length) > uint64(len(s)-frameHeadBytes) {
			return ErrSnapshotTruncated
		}
		end := frameHeadBytes + int(h.length)
		payload := s[frameHeadBytes:end:end]
		if !good(h, payload) {
			return errFrame
		}
		s = s[end:]
	}
	return nil
}

// rewrite changes the frames of a stream and gives them right checksums, so that only what is behind those is judged.
func rewrite(tb reporter, stream []byte, change func(kind frameKind, payload []byte) [][]byte) []byte {
	out := bytes.Clone(stream[:preambleBytes])
	err := frames(stream, func(h frameHead, payload []byte) bool {
		for _, p := range change(h.kind, payload) {
			out = appendFrame(out, h.kind, p)
		}
		return true
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func marshal(tb reporter, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// editChunk changes the records of the (only) chunk.
func editChunk(tb reporter, edit func([]record) []record) func(frameKind, []byte) [][]byte {
	return func(kind frameKind, payload []byte) [][]byte {
		if kind != chunkFrame {
			return [][]byte{payload}
		}
		c := &metadatav1.SnapshotChunk{}
		if err := proto.Unmarshal(payload, c); err != nil {
			tb.Fatal(err)
		}
		c.Records = edit(c.GetRecords())
		return [][]byte{marshal(tb, c)}
	}
}

func editHeader(tb reporter, edit func(*metadatav1.SnapshotHeader)) func(frameKind, []byte) [][]byte {
	return func(kind frameKind, payload []byte) [][]byte {
		if kind != headerFrame {
			return [][]byte{payload}
		}
		h := &metadatav1.SnapshotHeader{}
		if err := proto.Unmarshal(payload, h); err != nil {
			tb.Fatal(err)
		}
		edit(h)
		return [][]byte{marshal(tb, h)}
	}
}

func editTrailer(tb reporter, edit func(*metadatav1.SnapshotTrailer)) func(frameKind, []byte) [][]byte {
	return func(kind frameKind, payload []byte) [][]byte {
		if kind != trailerFrame {
			return [][]byte{payload}
		}
		tr := &metadatav1.SnapshotTrailer{}
		if err := proto.Unmarshal(payload, tr); err != nil {
			tb.Fatal(err)
		}
		edit(tr)
		return [][]byte{marshal(tb, tr)}
	}
}

func dropFrame(of frameKind) func(frameKind, []byte) [][]byte {
	return func(kind frameKind, payload []byte) [][]byte {
		if kind == of {
			return nil
		}
		return [][]byte{payload}
	}
}

func doubleFrame(of frameKind) func(frameKind, []byte) [][]byte {
	return func(kind frameKind, payload []byte) [][]byte {
		if kind == of {
			return [][]byte{payload, payload}
		}
		return [][]byte{payload}
	}
}

// TestSnapshotLiesAreFound has streams whose every checksum is right and that are wrong all the same.
func TestSnapshotLiesAreFound(t *testing.T) {
	stream := snapshotOf(t, soundImage(t))
	unknown := []byte{0xfa, 0x3f, 0x01, 'x'} // field 1023
	lies := map[string]func(frameKind, []byte) [][]byte{
		"no header":             dropFrame(headerFrame),
		"two headers":           doubleFrame(headerFrame),
		"no trailer":            dropFrame(trailerFrame),
		"two trailers":          doubleFrame(trailerFrame),
		"no records":            dropFrame(chunkFrame),
		"every record twice":    doubleFrame(chunkFrame),
		"an empty chunk":        editChunk(t, func([]record) []record { return nil }),
		"a record is missing":   editChunk(t, func(r []record) []record { return r[:len(r)-1] }),
		"a record is doubled":   editChunk(t, func(r []record) []record { return append(r, r[len(r)-1]) }),
		"records change places": editChunk(t, func(r []record) []record { r[1], r[2] = r[2], r[1]; return r }),
		"a record without a kind": editChunk(t, func(r []record) []record {
			return append(r, &metadatav1.Record{})
		}),
		"a record that changes": editChunk(t, func(r []record) []record {
			return append(r, changeISR(uuid(10), 0, []int32{1}))
		}),
		"another broker epoch": editChunk(t, func(r []record) []record { r[1].GetRegisterBroker().BrokerEpoch++; return r }),
		"a partition before its topic": editChunk(t, func(r []record) []record {
			return append([]record{partitionRecord(uuid(10), 0, []int32{1})}, r...)
		}),
		"unknown field of a frame": func(kind frameKind, payload []byte) [][]byte { return [][]byte{slices.Concat(payload, unknown)} },
		"unknown field of a record": editChunk(t, func(r []record) []record {
			r[1].GetRegisterBroker().GetListeners()[0].ProtoReflect().SetUnknown(unknown)
			return r
		}),
		"another lineage": editHeader(t, func(h *metadatav1.SnapshotHeader) { h.Lineage.Number = 2 }),
		"no lineage":      editHeader(t, func(h *metadatav1.SnapshotHeader) { h.Lineage = nil }),
		"another offset":  editHeader(t, func(h *metadatav1.SnapshotHeader) { h.NextMetadataOffset++ }),
		"another format":  editHeader(t, func(h *metadatav1.SnapshotHeader) { h.Format = 2 }),
		"a feature level of the future": editHeader(t, func(h *metadatav1.SnapshotHeader) {
			h.FeatureLevel = featureLevel + 1
		}),
		"a claim without offset": editHeader(t, func(h *metadatav1.SnapshotHeader) { h.ClaimOffset = -1 }),
		"an offset without claim": editHeader(t, func(h *metadatav1.SnapshotHeader) {
			h.Claim = nil
		}),
		"a claim of nobody":  editHeader(t, func(h *metadatav1.SnapshotHeader) { h.Claim.Nonce = nil }),
		"another digest":     editTrailer(t, func(tr *metadatav1.SnapshotTrailer) { tr.Digest[0]++ }),
		"no digest":          editTrailer(t, func(tr *metadatav1.SnapshotTrailer) { tr.Digest = nil }),
		"another count":      editTrailer(t, func(tr *metadatav1.SnapshotTrailer) { tr.Counts[0].Count++ }),
		"a kind not counted": editTrailer(t, func(tr *metadatav1.SnapshotTrailer) { tr.Counts = tr.GetCounts()[1:] }),
	}
	for what, lie := range lies {
		for name, read := range readers {
			if err := read(rewrite(t, stream, lie)); err == nil {
				t.Errorf("%s: %s was not found", name, what)
			}
		}
	}
	for name, read := range readers {
		if err := read(rewrite(t, stream, func(_ frameKind, p []byte) [][]byte { return [][]byte{p} })); err != nil {
			t.Errorf("%s: an unchanged stream is refused: %v", name, err)
		}
		if err := read(append(bytes.Clone(stream), 0)); err == nil {
			t.Errorf("%s: a byte after the trailer was not found", name)
		}
	}
}

// TestSnapshotBytesAreDeterministic writes one image twice, reached by two routes.
func TestSnapshotBytesAreDeterministic(t *testing.T) {
	w := newWorld(t)
	randomHistory(w, 7, 80)
	stream := snapshotOf(t, w.img)
	again := snapshotOf(t, throughSnapshot(t, w.img))
	if !bytes.Equal(stream, again) {
		t.Fatal("the same image gives two streams")
	}
}

// TestSnapshotInPieces reads and verifies a stream of several chunks byte by byte and in halves.
func TestSnapshotInPieces(t *testing.T) {
	w := &world{tb: t, img: soundImage(t)}
	for i := range 40 {
		w.fold(configRecord(BrokerResource(""), fmt.Sprint(i), ptr(strings.Repeat("x", maxStringBytes))))
	}
	img := w.img
	stream := snapshotOf(t, img)
	if chunks := countChunks(t, stream); chunks < 2 {
		t.Fatalf("%d chunks, want several", chunks)
	}
	for name, r := range map[string]io.Reader{
		"bytes":  iotest.OneByteReader(bytes.NewReader(stream)),
		"halves": iotest.HalfReader(bytes.NewReader(stream)),
		"eof":    iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		v := NewSnapshotVerifier()
		got, err := ReadSnapshot(io.TeeReader(r, v))
		if err != nil || got.Digest() != img.Digest() {
			t.Fatalf("%s: %v", name, err)
		}
		if err := v.Close(); err != nil || v.Digest() != img.Digest() {
			t.Fatalf("%s: verify: %v, digest %s", name, err, v.Digest())
		}
	}
}

func countChunks(tb reporter, stream []byte) int {
	chunks := 0
	err := frames(stream, func(h frameHead, payload []byte) bool {
		if h.kind == chunkFrame {
			chunks++
		}
		if len(payload) > chunkBytes {
			tb.Fatalf("a frame of %d bytes, at most %d", len(payload), chunkBytes)
		}
		return true
	})
	if err != nil {
		tb.Fatal(err)
	}
	return chunks
}

// TestReadSnapshotAllocatesWhatArrives promises a frame of the greatest length and sends nothing.
func TestReadSnapshotAllocatesWhatArrives(t *testing.T) {
	head := append(preamble(), byte(headerFrame))
	for _, length := range []uint32{maxFrameBytes, maxFrameBytes + 1, 1<<32 - 1} {
		stream := binary.BigEndian.AppendUint32(bytes.Clone(head), length)
		stream = append(stream, 0, 0, 0, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for name, read := range readers {
			if err := read(stream); err == nil {
				t.Errorf("%s: a frame of %d bytes that never came was read", name, length)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > maxFrameBytes/2 {
			t.Errorf("length %d: %d bytes were allocated for nothing", length, n)
		}
	}
}

var errDisk = errors.New("disk is full")

type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errDisk
	}
	w.left -= len(p)
	return len(p), nil
}

// TestWriteSnapshotReportsTheWriter fails at every write.
func TestWriteSnapshotReportsTheWriter(t *testing.T) {
	img := soundImage(t)
	for n := range len(snapshotOf(t, img)) {
		if err := WriteSnapshot(img, &failingWriter{left: n}); !errors.Is(err, errDisk) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// TestReadSnapshotReportsTheReader tells a fault of the reader from a stream that ends.
func TestReadSnapshotReportsTheReader(t *testing.T) {
	stream := snapshotOf(t, soundImage(t))
	r := io.MultiReader(bytes.NewReader(stream[:50]), iotest.ErrReader(errDisk))
	if _, err := ReadSnapshot(r); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	r = io.MultiReader(bytes.NewReader(stream), iotest.ErrReader(errDisk))
	if _, err := ReadSnapshot(r); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	if _, err := ReadSnapshot(bytes.NewReader(stream[:50])); !errors.Is(err, ErrSnapshotTruncated) {
		t.Fatal(err)
	}
	if _, err := ReadSnapshot(strings.NewReader("{\"json\": true, \"snapshot\": false}")); err == nil || errors.Is(err, ErrSnapshotTruncated) {
		t.Fatal(err)
	}
}

// TestVerifierRepeatsItsFirstError keeps a later, better byte from hiding a fault.
func TestVerifierRepeatsItsFirstError(t *testing.T) {
	stream := snapshotOf(t, soundImage(t))
	damaged := bytes.Clone(stream)
	damaged[30] ^= 1
	v := NewSnapshotVerifier()
	_, first := v.Write(damaged)
	if first == nil {
		t.Fatal("the damage was not found")
	}
	if _, err := v.Write(stream); err == nil || err.Error() != first.Error() {
		t.Fatalf("got %v, want %v", err, first)
	}
	for range 2 {
		if err := v.Close(); err == nil || err.Error() != first.Error() {
			t.Fatalf("got %v, want %v", err, first)
		}
	}
}
