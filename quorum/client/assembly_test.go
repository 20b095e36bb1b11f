package client

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// encodedImage is an image of some size and its snapshot.
func encodedImage(t testing.TB) (*fsm.Image, []byte) {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := &metadatav1.Batch{TimeMs: 1}
	for i := range 100 {
		batch.Records = append(batch.Records, &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
			ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, Key: fmt.Sprintf("k%03d", i), Value: proto.String("v"),
		}}})
	}
	if img, _, err = fsm.FoldBatches(img, []*metadatav1.Batch{batch}, 1); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := fsm.WriteSnapshot(img, &buf); err != nil {
		t.Fatal(err)
	}
	return img, buf.Bytes()
}

func announce(img *fsm.Image, size int) *controllerv1.SnapshotBegin {
	return &controllerv1.SnapshotBegin{Lineage: img.Lineage().ID.Proto(), NextMetadataOffset: img.NextOffset(), SizeBytes: int64(size)}
}

// assemble sends data in pieces, as a source does.
func assemble(begin *controllerv1.SnapshotBegin, data []byte, piece int) (*fsm.Image, error) {
	a, err := newAssembly(begin)
	if err != nil {
		return nil, err
	}
	defer a.abort()
	for len(data) > 0 {
		n := min(piece, len(data))
		if err := a.add(data[:n]); err != nil {
			return nil, err
		}
		data = data[n:]
	}
	return a.finish()
}

func TestSnapshotArrivesInPiecesOfAnySize(t *testing.T) {
	img, data := encodedImage(t)
	for _, piece := range []int{1, 7, 1000, len(data)} {
		got, err := assemble(announce(img, len(data)), data, piece)
		if err != nil || got.Digest() != img.Digest() {
			t.Fatalf("pieces of %d: %v", piece, err)
		}
	}
}

func TestSnapshotThatIsNotWhatWasAnnouncedIsRefused(t *testing.T) {
	img, data := encodedImage(t)
	flipped := bytes.Clone(data)
	flipped[len(flipped)/2] ^= 1
	other := announce(img, len(data))
	other.NextMetadataOffset++
	stranger := announce(img, len(data))
	stranger.Lineage = fsm.LineageID{Number: 2, UUID: fsm.UUID{3}}.Proto()
	malformed := announce(img, len(data))
	malformed.Lineage = &metadatav1.LineageID{Number: 1, Uuid: []byte{1}}
	for name, tc := range map[string]struct {
		begin *controllerv1.SnapshotBegin
		data  []byte
	}{
		"nothing":           {announce(img, 0), nil},
		"more than allowed": {&controllerv1.SnapshotBegin{SizeBytes: maxSnapshotBytes + 1}, nil},
		"longer":            {announce(img, len(data)), append(bytes.Clone(data), 0)},
		"shorter":           {announce(img, len(data)), data[:len(data)-1]},
		"truncated":         {announce(img, len(data)-1), data[:len(data)-1]},
		"a byte too many":   {announce(img, len(data)+1), append(bytes.Clone(data), 0)},
		"a flipped bit":     {announce(img, len(data)), flipped},
		"another offset":    {other, data},
		"another lineage":   {stranger, data},
		"half a lineage":    {malformed, data},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := assemble(tc.begin, tc.data, 100); err == nil {
				t.Fatalf("accepted an image at %d", got.NextOffset())
			}
		})
	}
}

// FuzzAssembly feeds a snapshot that a source has made up, cut anywhere. What is accepted must be the announced image.
func FuzzAssembly(f *testing.F) {
	img, data := encodedImage(f)
	f.Add(data, uint16(100))
	f.Add(data[:len(data)/2], uint16(1))
	f.Add([]byte("SKIFFSNP"), uint16(3))
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		got, err := assemble(announce(img, len(data)), data, int(piece)+1)
		if err == nil && (got.NextOffset() != img.NextOffset() || got.Lineage().ID != img.Lineage().ID) {
			t.Fatalf("accepted an image of lineage %s at %d", got.Lineage().ID, got.NextOffset())
		}
	})
}
