package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
)

func TestReadFrameSizes(t *testing.T) {
	const limit = 1 << 20
	tests := map[string]struct {
		announced int32
		sent      int
		refused   *FrameSizeError
		want      error
	}{
		"empty":              {0, 0, nil, nil},
		"small":              {10, 10, nil, nil},
		"a first chunk":      {FirstChunkBytes, FirstChunkBytes, nil, nil},
		"one more":           {FirstChunkBytes + 1, FirstChunkBytes + 1, nil, nil},
		"at the limit":       {limit, limit, nil, nil},
		"above the limit":    {limit + 1, 0, &FrameSizeError{limit + 1, limit}, nil},
		"2 GiB":              {1<<31 - 1, 0, &FrameSizeError{1<<31 - 1, limit}, nil},
		"negative":           {-1, 0, &FrameSizeError{-1, limit}, nil},
		"most negative":      {-1 << 31, 0, &FrameSizeError{-1 << 31, limit}, nil},
		"nothing but a size": {10, 0, nil, io.ErrUnexpectedEOF},
		"half a frame":       {10, 5, nil, io.ErrUnexpectedEOF},
		"half a large frame": {limit, limit / 2, nil, io.ErrUnexpectedEOF},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			body := bytes.Repeat([]byte{7}, tt.sent)
			in := append(binary.BigEndian.AppendUint32(nil, uint32(tt.announced)), body...)
			got, err := ReadFrame(bytes.NewReader(in), limit)
			var size *FrameSizeError
			switch {
			case tt.refused != nil:
				if !errors.As(err, &size) || *size != *tt.refused {
					t.Fatalf("got %v, want %v", err, tt.refused)
				}
			case !errors.Is(err, tt.want):
				t.Fatalf("got %v, want %v", err, tt.want)
			case err == nil && !bytes.Equal(got, body):
				t.Fatalf("got %d bytes of %d", len(got), len(body))
			}
		})
	}
}

func TestReadSizeTellsACleanEndFromACutFrame(t *testing.T) {
	if _, err := ReadSize(bytes.NewReader(nil), 10); !errors.Is(err, io.EOF) {
		t.Fatalf("between frames: %v", err)
	}
	if _, err := ReadSize(bytes.NewReader([]byte{0, 0}), 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("inside a size: %v", err)
	}
}

// TestPromisedBytesCostNothing: memory follows the bytes that arrived (I20).
func TestPromisedBytesCostNothing(t *testing.T) {
	in := binary.BigEndian.AppendUint32(nil, 100<<20)
	allocated := func(read func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		read()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	got := allocated(func() {
		if _, err := ReadFrame(bytes.NewReader(in), 100<<20); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	})
	if got > 4*FirstChunkBytes {
		t.Fatalf("a frame of 100 MiB that was announced and not sent cost %d bytes", got)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 1, 2, 3})
	f.Add([]byte{0, 0, 0, 3, 1, 2})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1 << 16
		r := bytes.NewReader(in)
		frame, err := ReadFrame(r, limit)
		if err != nil {
			var size *FrameSizeError
			switch {
			case errors.As(err, &size):
				if got := int(int32(binary.BigEndian.Uint32(in))); got != size.Size || 0 <= got && got <= limit {
					t.Fatalf("%v for a size of %d", err, got)
				}
				if r.Len() != len(in)-sizeBytes {
					t.Fatal("bytes of a refused frame were read")
				}
			case len(in) >= sizeBytes && len(in)-sizeBytes >= int(binary.BigEndian.Uint32(in)):
				t.Fatalf("a whole frame was not read: %v", err)
			}
			return
		}
		// What was read, framed again, is what was sent.
		again := append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
		if !bytes.Equal(again, in[:len(in)-r.Len()]) {
			t.Fatalf("%x read from %x", frame, in)
		}
	})
}
