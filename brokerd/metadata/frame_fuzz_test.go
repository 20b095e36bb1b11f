package metadata

import (
	"bufio"
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// FuzzFrames reads arbitrary bytes as frames. What is read must be a prefix that writes back to something that reads
// the same, and reading must stop within the input.
func FuzzFrames(f *testing.F) {
	one, err := appendFrame(nil, &controllerv1.EntryApplied{FirstMetadataOffset: 7, ControllerEpoch: 3, Envelope: []byte("envelope")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(append(bytes.Clone(one), one[:9]...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := &frameReader{r: bufio.NewReader(bytes.NewReader(in))}
		for {
			e, err := r.next()
			if err != nil {
				break
			}
			again, err := appendFrame(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			back, err := (&frameReader{r: bufio.NewReader(bytes.NewReader(again))}).next()
			if err != nil || !proto.Equal(back, e) {
				t.Fatalf("entry %v reads back as %v, %v", e, back, err)
			}
		}
		if r.read > int64(len(in)) {
			t.Fatalf("read %d of %d bytes", r.read, len(in))
		}
	})
}

// FuzzLogHeader reads arbitrary bytes as a header; one that is accepted writes back to the same bytes.
func FuzzLogHeader(f *testing.F) {
	f.Add(logHeader{first: 9}.encode())
	f.Add([]byte(logMagic))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := parseLogHeader(in)
		if err == nil && !bytes.Equal(h.encode(), in[:logHeaderSize]) {
			t.Fatalf("header %+v does not write back to %x", h, in[:logHeaderSize])
		}
	})
}
