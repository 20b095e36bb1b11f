package fsm

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// writeSeeds writes the seeds of testdata/fuzz anew, after the log format has grown.
var writeSeeds = flag.Bool("write-seeds", false, "write the fuzz seeds of testdata/fuzz anew")

// seedHistories are logs as the fuzz targets take them: envelopes, each preceded by its length.
func seedHistories(tb reporter) [][]byte {
	var logs [][]byte
	for seed := range uint64(10) {
		w := newWorld(tb)
		var log []byte
		for _, e := range randomHistory(w, seed, 9) {
			entry, err := EncodeEnvelope(e.Envelope)
			if err != nil {
				tb.Fatal(err)
			}
			log = append(binary.BigEndian.AppendUint16(log, uint16(len(entry))), entry...)
		}
		logs = append(logs, log)
	}
	return logs
}

func seedSnapshots(tb reporter) [][]byte {
	streams := [][]byte{snapshotOf(tb, newWorld(tb).img), snapshotOf(tb, soundImage(tb))}
	for seed := range uint64(4) {
		w := newWorld(tb)
		randomHistory(w, seed, 12)
		streams = append(streams, snapshotOf(tb, w.img))
	}
	return streams
}

func seedEnvelopes(tb reporter) [][]byte {
	w := newWorld(tb)
	var entries [][]byte
	for _, e := range randomHistory(w, 11, 20) {
		entry, err := EncodeEnvelope(e.Envelope)
		if err != nil {
			tb.Fatal(err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// TestFuzzSeeds keeps the committed seeds in step with the format: each must still be what it was written as.
func TestFuzzSeeds(t *testing.T) {
	for name, seeds := range map[string][][]byte{
		"FuzzApply": seedHistories(t), "FuzzReadSnapshot": seedSnapshots(t), "FuzzDecodeEnvelope": seedEnvelopes(t),
	} {
		for i, seed := range seeds {
			path := filepath.Join("testdata", "fuzz", name, fmt.Sprintf("seed-%02d", i))
			want := fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", seed)
			if *writeSeeds {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not up to date (%v): go test ./fsm -run TestFuzzSeeds -write-seeds", path, err)
			}
		}
	}
}

// FuzzApply folds whatever a log may hold. The guard is made to hold for every other entry, or almost nothing would
// reach the fold.
func FuzzApply(f *testing.F) {
	f.Fuzz(func(t *testing.T, log []byte) {
		w := newWorld(t)
		follower := w.img
		for n := 0; len(log) >= 2 && n < 64; n++ {
			length := min(int(binary.BigEndian.Uint16(log)), len(log)-2)
			env, err := DecodeEnvelope(log[2 : 2+length])
			log = log[2+length:]
			if err != nil {
				continue
			}
			e := Entry{Envelope: env, ControllerEpoch: env.GetControllerEpoch()}
			if isClaim(env) {
				e.ControllerEpoch = w.img.ControllerEpoch() + 1
			} else if n%2 == 0 {
				e = w.entry()
				e.Envelope.Batches = env.GetBatches()
			}
			follower = fuzzStep(t, w, follower, e)
		}
		mustBeSound(t, w.img)
		first := newWorld(t).img
		if got, want := stateOf(first).with(Diff(first, w.img), w.img).String(), stateOf(w.img).String(); got != want {
			t.Fatalf("I5: the difference leads to\n%s\nwant\n%s", got, want)
		}
	})
}

// fuzzStep applies one entry and verifies that every outcome keeps its promise.
func fuzzStep(t *testing.T, w *world, follower *Image, e Entry) *Image {
	before := w.img
	r := w.apply(e)
	if r.Outcome != Applied {
		if r.Image != before || (r.Mismatch == nil) == (r.Err == nil) {
			t.Fatalf("%v with mismatch %v and error %v", r.Outcome, r.Mismatch, r.Err)
		}
		return follower
	}
	if err := Check(r.Image); err != nil {
		t.Fatalf("check: %v", err)
	}
	f := Follow(follower, Entry{Envelope: e.Envelope, ControllerEpoch: r.ControllerEpoch, FirstOffset: r.FirstOffset})
	if f.Outcome != Applied || f.Image.Digest() != r.Image.Digest() {
		t.Fatalf("I1: the follower %v %v %v", f.Outcome, f.Mismatch, f.Err)
	}
	return f.Image
}

// FuzzReadSnapshot reads whatever a stream may hold: first as it is, then with right checksums and a right trailer, so
// that what is behind them is reached.
func FuzzReadSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream []byte) {
		fuzzRead(t, stream)
		if repaired, ok := repair(stream); ok {
			fuzzRead(t, repaired)
		}
	})
}

// fuzzRead demands of a stream that is accepted that it is the one stream of its image.
func fuzzRead(t *testing.T, stream []byte) {
	img, err := ReadSnapshot(bytes.NewReader(stream))
	if err != nil {
		return
	}
	if err := readers["verify"](stream); err != nil {
		t.Fatalf("what can be read is not verified: %v", err)
	}
	again := throughSnapshot(t, img)
	if again.Digest() != img.Digest() || Describe(again) != Describe(img) {
		t.Fatalf("I5: read back\n%s\nwant\n%s", Describe(again), Describe(img))
	}
}

// repair gives a stream the checksums and the trailer that its header and chunks deserve.
func repair(stream []byte) ([]byte, bool) {
	s := newSnapshotStream(nil)
	out := preamble()
	_ = frames(stream, func(h frameHead, payload []byte) bool {
		if h.kind == trailerFrame || s.frame(h.kind, payload) != nil {
			return false
		}
		out = appendFrame(out, h.kind, payload)
		return true
	})
	if !s.begun {
		return nil, false
	}
	digest := s.objects.add(s.guard.sum()).digest()
	trailer := &metadatav1.SnapshotTrailer{Digest: digest[:]}
	for _, kind := range slices.Sorted(maps.Keys(s.counts)) {
		trailer.Counts = append(trailer.Counts, &metadatav1.SnapshotCount{Kind: kind, Count: s.counts[kind]})
	}
	payload, err := proto.Marshal(trailer)
	return appendFrame(out, trailerFrame, payload), err == nil
}

// FuzzDecodeEnvelope demands that what is decoded encodes to the same again.
func FuzzDecodeEnvelope(f *testing.F) {
	f.Fuzz(func(t *testing.T, entry []byte) {
		env, err := DecodeEnvelope(entry)
		if err != nil {
			return
		}
		again, err := EncodeEnvelope(env)
		if err != nil {
			t.Fatalf("decoded and not encoded: %v", err)
		}
		back, err := DecodeEnvelope(again)
		if err != nil || !proto.Equal(back, env) {
			t.Fatalf("%v: got %v, want %v", err, back, env)
		}
		w := newWorld(t)
		fuzzStep(t, w, w.img, Entry{Envelope: env, ControllerEpoch: 1})
	})
}
