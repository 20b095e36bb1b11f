package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// capBytes is more than any honest batch of these tests decompresses to.
const capBytes = 4 << 20

func someRecords(n, valueBytes int) []Record {
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{
			Offset: 100 + int64(i), TimestampMs: 1_700_000_000_000 + int64(i*7%5),
			Key:     fmt.Appendf(nil, "key-%d", i),
			Value:   bytes.Repeat([]byte{byte('a' + i%26)}, valueBytes),
			Headers: []RecordHeader{{Key: []byte("trace"), Value: []byte{byte(i)}}, {Key: []byte{}, Value: nil}},
		}
	}
	records[0].Key, records[n-1].Value = nil, nil
	return records
}

func mustBuild(t testing.TB, records []Record, o BuildOptions) []byte {
	t.Helper()
	b, err := Build(records, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func collect(t testing.TB, b []byte) []Record {
	t.Helper()
	var records []Record
	err := Iterate(b, capBytes, func(r Record) bool {
		r.Headers = append([]RecordHeader(nil), r.Headers...)
		records = append(records, r)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func everyCodec(t *testing.T, run func(t *testing.T, o BuildOptions)) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) { run(t, BuildOptions{Codec: codec, BaseOffset: 100}) })
	}
	t.Run("snappy in xerial's frame", func(t *testing.T) {
		run(t, BuildOptions{Codec: CodecSnappy, Xerial: true, BaseOffset: 100})
	})
}

func TestRecordsSurviveEachCodec(t *testing.T) {
	everyCodec(t, func(t *testing.T, o BuildOptions) {
		for _, valueBytes := range []int{0, 10, 100_000} {
			want := someRecords(20, valueBytes)
			b := mustBuild(t, want, o)
			h, err := Validate(b, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			contents, err := ValidateRecords(b, h, capBytes)
			if err != nil {
				t.Fatal(err)
			}
			if contents.MaxTimestampMs != h.MaxTimestamp || !contents.NullKeys {
				t.Fatalf("contents %+v, header %+v", contents, h)
			}
			if got := collect(t, b); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %d records, want %d the same", len(got), len(want))
			}
		}
	})
}

// TestAgreesWithKmsg checks the layout against another implementation.
func TestAgreesWithKmsg(t *testing.T) {
	want := someRecords(3, 5)
	b := mustBuild(t, want, BuildOptions{BaseOffset: 100, LeaderEpoch: 7, Producer: &Producer{ID: 9, Epoch: 2, BaseSequence: 11}})
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	h, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	got := Header{
		BaseOffset: batch.FirstOffset, Length: batch.Length, LeaderEpoch: batch.PartitionLeaderEpoch, Magic: batch.Magic,
		CRC: uint32(batch.CRC), Attributes: batch.Attributes, LastOffsetDelta: batch.LastOffsetDelta,
		BaseTimestamp: batch.FirstTimestamp, MaxTimestamp: batch.MaxTimestamp, ProducerID: batch.ProducerID,
		ProducerEpoch: batch.ProducerEpoch, BaseSequence: batch.FirstSequence, RecordCount: batch.NumRecords,
	}
	if got != h {
		t.Fatalf("kmsg reads %+v, we %+v", got, h)
	}
	var record kmsg.Record
	if err := record.ReadFrom(batch.Records); err != nil {
		t.Fatal(err)
	}
	if string(record.Value) != string(want[0].Value) || len(record.Headers) != 2 || record.Headers[0].Key != "trace" {
		t.Fatalf("kmsg reads record %+v", record)
	}
}

func TestValidateRefuses(t *testing.T) {
	be := binary.BigEndian
	const after = 1000
	for _, test := range []struct {
		name  string
		spoil func(b []byte) []byte
		want  error
	}{
		{"nothing", func(b []byte) []byte { return nil }, ErrCorrupt},
		{"a torn header", func(b []byte) []byte { return b[:HeaderBytes-1] }, ErrCorrupt},
		{"a torn batch", func(b []byte) []byte { return b[:len(b)-1] }, ErrCorrupt},
		{"a byte too many", func(b []byte) []byte { return append(b, 0) }, ErrCorrupt},
		{"two batches", func(b []byte) []byte { return append(b, b...) }, ErrCorrupt},
		{"magic 0", func(b []byte) []byte { b[16] = 0; return b }, ErrUnsupportedMagic},
		{"magic 1", func(b []byte) []byte { b[16] = 1; return b }, ErrUnsupportedMagic},
		{"magic 3", func(b []byte) []byte { b[16] = 3; return b }, ErrCorrupt},
		{"a negative length", func(b []byte) []byte { be.PutUint32(b[8:], 1<<31); return b }, ErrCorrupt},
		{"a length of 2 GiB", func(b []byte) []byte { be.PutUint32(b[8:], 1<<31-1); return b }, ErrCorrupt},
		{"a wrong checksum", func(b []byte) []byte { b[len(b)-1]++; return b }, ErrCorrupt},
		{"codec 5", func(b []byte) []byte { b[22] |= 5; return sealed(b) }, ErrUnsupportedCodec},
		{"a control batch", func(b []byte) []byte { b[22] |= byte(AttrControl); return sealed(b) }, ErrInvalidRecord},
		{"append time", func(b []byte) []byte { b[22] |= byte(AttrLogAppendTime); return sealed(b) }, ErrInvalidTimestamp},
		{"no records", func(b []byte) []byte { be.PutUint32(b[57:], 0); return sealed(b) }, ErrInvalidRecord},
		{"a negative count", func(b []byte) []byte { be.PutUint32(b[57:], 1<<31); return sealed(b) }, ErrInvalidRecord},
		{"a delta that is not count-1", func(b []byte) []byte { be.PutUint32(b[23:], 7); return sealed(b) }, ErrInvalidRecord},
		{"the largest base offset", func(b []byte) []byte { be.PutUint64(b, 1<<63-1); return b }, ErrInvalidRecord},
		{"a transaction of nobody", func(b []byte) []byte { b[22] |= byte(AttrTransactional); return sealed(b) }, ErrInvalidRecord},
		{"a producer without sequence", func(b []byte) []byte { be.PutUint64(b[43:], 5); return sealed(b) }, ErrInvalidRecord},
		{"producer id -2", func(b []byte) []byte { be.PutUint64(b[43:], 1<<64-2); return sealed(b) }, ErrInvalidRecord},
		{"a timestamp of -2", func(b []byte) []byte { be.PutUint64(b[35:], 1<<64-2); return sealed(b) }, ErrInvalidTimestamp},
		{"a timestamp too new", func(b []byte) []byte { SetMaxTimestamp(b, 50_000+after+1); return b }, ErrInvalidTimestamp},
		{"a timestamp too old", func(b []byte) []byte { SetMaxTimestamp(b, 50_000-2*after-1); return b }, ErrInvalidTimestamp},
		{"a batch too large", func(b []byte) []byte { return mustBuild(t, someRecords(9, 500), BuildOptions{}) }, ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := mustBuild(t, []Record{{TimestampMs: 50_000}, {TimestampMs: 50_000}}, BuildOptions{})
			limits := Limits{MaxBytes: 1000, NowMs: 50_000, MaxAfterMs: after, MaxBeforeMs: 2 * after}
			if _, err := Validate(b, limits); err != nil {
				t.Fatal(err)
			}
			if _, err := Validate(test.spoil(b), limits); !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
		})
	}
}

func sealed(b []byte) []byte { Seal(b); return b }

func TestValidateRecordsRefuses(t *testing.T) {
	plain := func(records ...rawRecord) []byte {
		var out []byte
		for _, r := range records {
			out = appendRecord(out, r)
		}
		return out
	}
	for _, test := range []struct {
		name string
		body []byte
	}{
		{"one record fewer than counted", plain(rawRecord{})},
		{"one record more than counted", plain(rawRecord{}, rawRecord{offsetDelta: 1}, rawRecord{offsetDelta: 2})},
		{"a doubled offset", plain(rawRecord{}, rawRecord{})},
		{"a gap", plain(rawRecord{}, rawRecord{offsetDelta: 2})},
		{"a record of negative length", []byte{1}},
		{"a record longer than the batch", []byte{0x80, 0x80, 0x80, 0x80, 0x10}},
		{"a key longer than its record", []byte{12, 0, 0, 0, 0x7e, 1, 0}},
		{"a key of length -2", []byte{12, 0, 0, 0, 3, 1, 0}},
		{"more headers than bytes", []byte{14, 0, 0, 0, 1, 1, 0x7e, 0}},
		{"a varint of 11 bytes", bytes.Repeat([]byte{0xff}, 11)},
		{"bytes after the headers", []byte{16, 0, 0, 0, 1, 1, 0, 9, 9}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := append(mustBuild(t, []Record{{}, {}}, BuildOptions{})[:HeaderBytes:HeaderBytes], test.body...)
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-prefixBytes))
			h, err := Validate(sealed(b), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ValidateRecords(b, h, capBytes); !errors.Is(err, ErrInvalidRecord) {
				t.Fatalf("got %v, want %v", err, ErrInvalidRecord)
			}
		})
	}
}

// TestExpansionIsBounded builds batches that decompress to 64 MiB and checks
// that no more memory than the cap allows is spent on refusing them.
func TestExpansionIsBounded(t *testing.T) {
	bomb := []Record{{Value: make([]byte, 64<<20)}}
	const small = 1 << 20
	everyCodec(t, func(t *testing.T, o BuildOptions) {
		b := mustBuild(t, bomb, o)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Iterate(b, small, func(Record) bool { return true })
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrExpansion) {
			t.Fatalf("got %v, want %v", err, ErrExpansion)
		}
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 16*small {
			t.Fatalf("spent %d bytes on a cap of %d", spent, small)
		}
	})
}

// TestStreamsOfUnknownLength: a client that streams into zstd does not know
// the length when it writes the frame's header. Java's do so.
func TestStreamsOfUnknownLength(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 100_000, 1 << 17, 700_000} {
		for _, noise := range []int{0, 1, 256} {
			want := make([]byte, size)
			for i := range want {
				if noise > 0 && rnd.IntN(256) < noise {
					want[i] = byte(rnd.Uint32())
				}
			}
			for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedBestCompression} {
				checkStream(t, want, level)
			}
		}
	}
}

// TestFramesOneAfterTheOther: the first frame's length is not the whole.
func TestFramesOneAfterTheOther(t *testing.T) {
	for codec := CodecGzip; codec <= CodecZstd; codec++ {
		if codec == CodecSnappy {
			continue // has no frames
		}
		want := bytes.Repeat([]byte("again and again "), 30_000)
		body, err := compress(codec, want, false)
		if err != nil {
			t.Fatal(err)
		}
		both := append(bytes.Clone(body), body...)
		plain, err := decompress(codec, both, math.MaxInt)
		if err != nil || len(plain) != 2*len(want) {
			t.Fatalf("%s: %d bytes of %d, %v", codec, len(plain), 2*len(want), err)
		}
		if _, err := decompress(codec, both, 2*len(want)-1); !errors.Is(err, ErrExpansion) {
			t.Fatalf("%s: %v", codec, err)
		}
	}
}

func checkStream(t *testing.T, want []byte, level zstd.EncoderLevel) {
	t.Helper()
	body, err := compressStream(want, func(w io.Writer) io.WriteCloser {
		encoder, err := zstd.NewWriter(w, zstd.WithEncoderLevel(level))
		if err != nil {
			t.Fatal(err)
		}
		return flushing{encoder}
	})
	if err != nil {
		t.Fatal(err)
	}
	size := len(want)
	for _, most := range []int{size, size + 1, 2*size + 5, math.MaxInt} {
		if plain, err := decompress(CodecZstd, body, most); err != nil || !bytes.Equal(plain, want) {
			t.Fatalf("%d bytes, at most %d: got %d, %v", size, most, len(plain), err)
		}
	}
	for _, most := range []int{-1, size / 2, size - 1} {
		if max(most, 0) >= size {
			continue
		}
		if _, err := decompress(CodecZstd, body, most); !errors.Is(err, ErrExpansion) {
			t.Fatalf("%d bytes, at most %d: %v", size, most, err)
		}
	}
	if len(body) > 20 {
		if _, err := decompress(CodecZstd, body[:len(body)-5], math.MaxInt); !errors.Is(err, ErrInvalidRecord) {
			t.Fatalf("%d bytes, cut short: %v", size, err)
		}
	}
}

// flushing flushes after each write, so that the encoder cannot know how much
// there is.
type flushing struct{ *zstd.Encoder }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.Encoder.Write(b)
	return n, errors.Join(err, f.Flush())
}

// TestClaimedSizesAreNotAllocated gives each codec a frame that claims to be
// as large as the cap and is almost empty.
func TestClaimedSizesAreNotAllocated(t *testing.T) {
	claim := binary.AppendUvarint(nil, 512<<20)
	for name, body := range map[string][]byte{
		"snappy":        claim,
		"snappy xerial": append(append(append([]byte{}, xerialMagic...), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, byte(len(claim))), claim...),
		"xerial length": append(append([]byte{}, xerialMagic...), 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := decompress(CodecSnappy, body, 1<<30)
			runtime.ReadMemStats(&after)
			if spent := after.TotalAlloc - before.TotalAlloc; err == nil || spent > 1<<20 {
				t.Fatalf("err %v, spent %d bytes", err, spent)
			}
		})
	}
}

func TestSplitStopsAtATornBatch(t *testing.T) {
	one := mustBuild(t, someRecords(2, 10), BuildOptions{})
	two := mustBuild(t, someRecords(3, 10), BuildOptions{BaseOffset: 2})
	all := append(append([]byte{}, one...), two...)
	for cut := range len(all) + 1 {
		whole := 0
		for batch, err := range Split(all[:cut]) {
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(batch, [][]byte{one, two}[whole]) {
				t.Fatalf("cut at %d: batch %d differs", cut, whole)
			}
			whole++
		}
		want := 0
		if cut >= len(one) {
			want++
		}
		if cut == len(all) {
			want++
		}
		if whole != want {
			t.Fatalf("cut at %d: %d batches, want %d", cut, whole, want)
		}
	}
}

func TestTimestampsVisitsOffsetsAndTimes(t *testing.T) {
	b := mustBuild(t, someRecords(4, 10), BuildOptions{BaseOffset: 100, Codec: CodecLZ4})
	var offsets []int64
	err := Timestamps(capBytes)(b, func(offset, timestampMs int64) bool {
		if want := someRecords(4, 10)[len(offsets)]; offset != want.Offset || timestampMs != want.TimestampMs {
			t.Fatalf("offset %d at %d", offset, timestampMs)
		}
		offsets = append(offsets, offset)
		return len(offsets) < 3
	})
	if err != nil || len(offsets) != 3 {
		t.Fatal(offsets, err)
	}
}

func TestSetMaxTimestampSealsAgain(t *testing.T) {
	b := mustBuild(t, someRecords(2, 10), BuildOptions{})
	SetMaxTimestamp(b, 42)
	h, err := Validate(b, Limits{})
	if err != nil || h.MaxTimestamp != 42 {
		t.Fatalf("%v %v", h.MaxTimestamp, err)
	}
}

func TestAppendTimeIsEveryRecordsTime(t *testing.T) {
	b := mustBuild(t, someRecords(3, 1), BuildOptions{Attributes: AttrLogAppendTime})
	h, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range collect(t, b) {
		if r.TimestampMs != h.MaxTimestamp {
			t.Fatalf("record at %d, batch at %d", r.TimestampMs, h.MaxTimestamp)
		}
	}
}

func TestCodecNamesAreKafkas(t *testing.T) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		got, err := ParseCodec(codec.String())
		if err != nil || got != codec {
			t.Fatalf("%s: %v %v", codec, got, err)
		}
	}
	if _, err := ParseCodec("brotli"); !errors.Is(err, ErrUnsupportedCodec) {
		t.Fatal(err)
	}
}

// FuzzParseBatch: what Validate accepts is one whole batch whose checksum
// holds, and encoding its header gives the same bytes again.
func FuzzParseBatch(f *testing.F) {
	f.Add([]byte{})
	f.Add(mustBuild(f, someRecords(3, 20), BuildOptions{Codec: CodecZstd}))
	f.Add(mustBuild(f, someRecords(1, 0), BuildOptions{Producer: &Producer{ID: 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Validate(b, Limits{MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		if !bytes.Equal(h.append(nil), b[:HeaderBytes]) {
			t.Fatalf("header %+v does not encode to what it was read from", h)
		}
		if crc32.Checksum(b[21:], castagnoli) != h.CRC || h.Size() != int64(len(b)) || h.RecordCount < 1 {
			t.Fatalf("accepted %+v", h)
		}
	})
}

// FuzzIterate reads arbitrary bodies under each codec: never more than the
// cap comes out, offsets rise, and what was read builds and reads the same.
func FuzzIterate(f *testing.F) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		f.Add(uint8(codec), int32(3), mustBuild(f, someRecords(3, 20), BuildOptions{Codec: codec})[HeaderBytes:])
	}
	f.Add(uint8(CodecSnappy), int32(3), mustBuild(f, someRecords(3, 20), BuildOptions{Codec: CodecSnappy, Xerial: true})[HeaderBytes:])
	f.Fuzz(func(t *testing.T, codec uint8, count int32, body []byte) {
		const small = 1 << 16
		h := Header{Length: int32(HeaderBytes - prefixBytes + len(body)), Magic: magicV2,
			Attributes: int16(codec) & AttrCodecMask, LastOffsetDelta: count - 1, RecordCount: count}
		b := append(h.append(nil), body...)
		Seal(b)
		var records []Record
		last, plain := int64(-1), 0
		err := Iterate(b, small, func(r Record) bool {
			if r.Offset <= last || r.Offset >= int64(count) {
				t.Fatalf("offset %d after %d of %d", r.Offset, last, count)
			}
			last = r.Offset
			plain += len(r.Key) + len(r.Value)
			r.Headers = append([]RecordHeader(nil), r.Headers...)
			records = append(records, r)
			return true
		})
		if plain > small {
			t.Fatalf("%d bytes came out of a cap of %d", plain, small)
		}
		if err != nil || len(records) == 0 || last != int64(len(records))-1 {
			return
		}
		again := collect(t, mustBuild(t, records, BuildOptions{}))
		for i, r := range again {
			if r.Offset != records[i].Offset || !bytes.Equal(r.Key, records[i].Key) || !bytes.Equal(r.Value, records[i].Value) || len(r.Headers) != len(records[i].Headers) {
				t.Fatalf("record %d: %+v became %+v", i, records[i], r)
			}
		}
	})
}

func BenchmarkValidate16KiB(b *testing.B) {
	batch := mustBuild(b, someRecords(16, 1000), BuildOptions{})
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if _, err := Validate(batch, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		batch := mustBuild(b, someRecords(160, 100), BuildOptions{Codec: codec})
		b.Run(codec.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(160 * 110)
			for b.Loop() {
				if err := Iterate(batch, capBytes, func(Record) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
