package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

var writeGolden = flag.Int("write-golden", 0, "write the golden snapshots of this build under this number; they stay for ever")

// fullImage has at least two of every record that a snapshot may hold, but for producer ids, of which there is one.
func fullImage(tb reporter) *Image {
	w := newWorld(tb)
	w.claim(101, 1)
	for id := int32(1); id <= 3; id++ {
		w.addBroker(id)
	}
	w.fold(
		parseRecord(tb, "controller node=101 incarnation=7 listeners=CONTROLLER:c1:9093"),
		parseRecord(tb, "controller node=102 incarnation=8 listeners=CONTROLLER:c2:9093"),
		parseRecord(tb, "register id=4 epoch="+fmt.Sprint(w.img.NextOffset()+2)+" incarnation=9 rack=r1 listeners=PLAINTEXT:b4:9092,SSL:b4:9093 directories=71,72"),
		parseRecord(tb, "topic name=a id=10"),
		parseRecord(tb, "partition topic=10 n=0 replicas=1,2,3 isr=2,1 leader=2 leader-epoch=4 partition-epoch=9"),
		parseRecord(tb, "partition topic=10 n=1 replicas=1,2,3,4,5 isr=1 leader=1 recovering directories=71,72,73,74,75"),
		parseRecord(tb, "topic name=b.b id=11"),
		parseRecord(tb, "partition topic=11 n=0 replicas=2,3 isr=3 leader=3 adding=2"),
		parseRecord(tb, "partition topic=11 n=1 replicas=2,3 awaiting leader=-1 isr="),
		parseRecord(tb, "partition topic=11 n=2 replicas=3,2 awaiting leader=-1 isr="),
		parseRecord(tb, "partition topic=11 n=3 replicas=3,2 isr= leader=-1 elr=2,3"),
		parseRecord(tb, "config topic=a key=retention.ms value=1"),
		parseRecord(tb, "config topic=b.b key=cleanup.policy value=compact"),
		parseRecord(tb, "config key=min.insync.replicas value=2"),
		parseRecord(tb, "config broker=1 key=log.retention.ms value=5"),
		parseRecord(tb, "producer-ids broker=1 epoch=2 next=1000"),
		parseRecord(tb, "change topic=11 n=1 isr=3 leader=3 awaiting=false leader-epoch=7"),
		parseRecord(tb, "recovery-elected topic=11 n=1 leader=3 leader-epoch=7 last-epoch=3 end=40 missing=2 late=2:3:1:44"),
		parseRecord(tb, "change topic=11 n=2 isr=3 leader=3 awaiting=false leader-epoch=9"),
		parseRecord(tb, "recovery-elected topic=11 n=2 leader=3 leader-epoch=9 last-epoch=-1 missing=2"),
	)
	w.fold(
		&metadatav1.Record{Kind: &metadatav1.Record_FeatureLevel{FeatureLevel: &metadatav1.FeatureLevel{Name: "skiff.version", Level: 2}}},
		&metadatav1.Record{Kind: &metadatav1.Record_FeatureLevel{FeatureLevel: &metadatav1.FeatureLevel{Name: "transaction.version", Level: 1}}},
		answeredRecord(1),
		answeredRecord(2),
		quotaRecord("producer_byte_rate", 1024, QuotaEntity{User: QuotaPart{Given: true, Name: "ann"}}),
		quotaRecord("consumer_byte_rate", 0.5, QuotaEntity{User: QuotaPart{Given: true, Default: true}, ClientID: QuotaPart{Given: true, Name: "app"}}),
	)
	mustBeSound(tb, w.img)
	return w.img
}

func answeredRecord(n int) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RequestAnswered{RequestAnswered: &metadatav1.RequestAnswered{
		RequestId: uuid(n).Bytes(), RequestKind: "controller.v1.CreateTopicsRequest", Answer: []byte{byte(n)},
	}}}
}

func quotaRecord(key string, value float64, e QuotaEntity) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_ClientQuota{ClientQuota: Quota{Entity: e, Key: key, Value: value}.Record()}}
}

// countsOf returns how many records of each kind a snapshot has.
func countsOf(tb reporter, stream []byte) map[string]uint64 {
	tb.Helper()
	info, err := InspectSnapshot(bytes.NewReader(stream), 0)
	if err != nil {
		tb.Fatal(err)
	}
	counts := make(map[string]uint64)
	for _, k := range info.Kinds {
		counts[k.Name] = k.Records
	}
	return counts
}

// snapshotKinds are the kinds that a snapshot may have a record of.
func snapshotKinds() []string {
	var kinds []string
	for i := range recordKinds.Fields().Len() {
		f := recordKinds.Fields().Get(i)
		m := (&metadatav1.Record{}).ProtoReflect()
		m.Set(f, m.NewField(f))
		if _, err := objectFromRecord(m.Interface().(*metadatav1.Record)); err == nil || !strings.Contains(err.Error(), "has no place in a snapshot") {
			kinds = append(kinds, string(f.Message().Name()))
		}
	}
	return kinds
}

// golden are the images that this build writes golden files of.
func golden(tb reporter) map[string]*Image {
	full := fullImage(tb)
	born, err := Rebirth(full, Birth{ClusterID: full.ClusterID(), UUID: uuid(2)})
	if err != nil {
		tb.Fatal(err)
	}
	random := newWorld(tb)
	randomHistory(random, 11, 120)
	return map[string]*Image{"init": newWorld(tb).img, "full": full, "reborn": born, "random": random.img}
}

// TestGoldenSnapshots reads every snapshot that a release has ever written: what it says must not change, and a cluster
// must be able to go on from it. Files are only ever added, with -write-golden=<number>.
func TestGoldenSnapshots(t *testing.T) {
	const dir = "testdata/golden"
	if *writeGolden > 0 {
		for name, img := range golden(t) {
			writeGoldenFile(t, filepath.Join(dir, fmt.Sprintf("%d-%s", *writeGolden, name)), img)
		}
	}
	files, err := filepath.Glob(dir + "/*.snapshot")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	have := make(map[string]bool)
	for _, file := range files {
		stream, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(strings.TrimSuffix(file, ".snapshot") + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		img, err := ReadSnapshot(bytes.NewReader(stream))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := goldenText(img); got != string(want) {
			t.Errorf("%s says\n%s\nand said\n%s", file, got, want)
		}
		for kind := range countsOf(t, stream) {
			have[kind] = true
		}
		mustGoOn(t, img)
	}
	for _, kind := range snapshotKinds() {
		if !have[kind] {
			t.Errorf("no golden file has a %s: write new ones with -write-golden=%d", kind, len(files))
		}
	}
}

func goldenText(img *Image) string { return fmt.Sprintf("digest %s\n%s", img.Digest(), Describe(img)) }

// writeGoldenFile never replaces one.
func writeGoldenFile(tb reporter, path string, img *Image) {
	for suffix, data := range map[string][]byte{".snapshot": snapshotOf(tb, img), ".txt": []byte(goldenText(img))} {
		f, err := os.OpenFile(path+suffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			tb.Fatalf("a golden file is never replaced: %v", err)
		}
		_, err = f.Write(data)
		if err := errors.Join(err, f.Close()); err != nil {
			tb.Fatal(err)
		}
	}
}

// mustGoOn folds a claim and a topic on an image, and begins a new lineage from it.
func mustGoOn(tb reporter, img *Image) {
	w := &world{tb: tb, img: img}
	w.claim(101, max(img.ControllerEpoch(), img.EpochBase())+1)
	id := w.img.NextOffset()
	w.fold(topicRecord("golden", uuid(1000)), &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
		TopicId: uuid(1000).Bytes(), Replicas: []int32{1}, Leader: NoLeader, AwaitingInventory: true,
	}}}, registerRecord(77, id+2, 1))
	mustBeSound(tb, w.img)
	born, err := Rebirth(img, Birth{ClusterID: img.ClusterID(), UUID: uuid(1001)})
	if err != nil {
		tb.Fatal(err)
	}
	mustBeSound(tb, born)
	mustOnlyGrow(tb, img, born)
}

// TestFullImageHasEverything keeps the search for damage from missing a kind.
func TestFullImageHasEverything(t *testing.T) {
	counts := countsOf(t, snapshotOf(t, fullImage(t)))
	for _, kind := range snapshotKinds() {
		want := uint64(2)
		if kind == "ProducerIDs" {
			want = 1 // there is never more than one
		}
		if counts[kind] < want {
			t.Errorf("%d records %s, want %d", counts[kind], kind, want)
		}
	}
}

// TestNewerSnapshotIsRefused has what a later build may write: each is refused with what it needs.
func TestNewerSnapshotIsRefused(t *testing.T) {
	sound := snapshotOf(t, soundImage(t))
	version := bytes.Clone(sound)
	binary.BigEndian.PutUint32(version[len(snapshotMagic):], 7)
	unknown := []byte{0xfa, 0x3f, 0x01, 'x'}
	for want, stream := range map[string][]byte{
		"it needs snapshot version >= 7 and this build reads up to 1; nothing was touched": version,
		"it needs snapshot format >= 3 and this build reads up to 1; nothing was touched": rewrite(t, sound, editHeader(t, func(h *metadatav1.SnapshotHeader) {
			h.Format = 3
			h.ProtoReflect().SetUnknown(unknown) // which a new format may have
		})),
		fmt.Sprintf("it needs feature level >= %d and this build reads up to %d; nothing was touched", featureLevel+1, featureLevel): rewrite(t, sound, editHeader(t, func(h *metadatav1.SnapshotHeader) {
			h.FeatureLevel = featureLevel + 1
		})),
	} {
		for name, read := range readers {
			err := read(stream)
			var newer *NewerSnapshotError
			if !errors.As(err, &newer) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
	}
}

// TestInspectSnapshot adds up to what the stream has.
func TestInspectSnapshot(t *testing.T) {
	img := fullImage(t)
	stream := snapshotOf(t, img)
	info, err := InspectSnapshot(bytes.NewReader(stream), 3)
	if err != nil {
		t.Fatal(err)
	}
	if info.Digest != img.Digest() || info.NextOffset != img.NextOffset() || info.Lineage.ID != img.Lineage().ID || !info.Confirmed ||
		info.Bytes != int64(len(stream)) || info.NextProducerID != img.NextProducerID() || info.Format != snapshotFormat {
		t.Fatalf("%+v", info)
	}
	var records, size uint64
	for _, k := range info.Kinds {
		records, size = records+k.Records, size+k.Bytes
	}
	if size > uint64(len(stream)) || size < uint64(len(stream))/2 {
		t.Errorf("%d bytes of records in %d of stream", size, len(stream))
	}
	all, err := InspectSnapshot(bytes.NewReader(stream), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all.Top {
		records, size = records-o.Records, size-o.Bytes
	}
	if records != 0 || size != 0 {
		t.Errorf("the objects leave %d records of %d bytes over: %+v", records, size, all.Top)
	}
	if !slices.IsSortedFunc(all.Top, func(a, b ObjectUsage) int { return int(b.Bytes) - int(a.Bytes) }) || !slices.Equal(all.Top[:3], info.Top) {
		t.Errorf("top %+v of %+v", info.Top, all.Top)
	}
	want := ObjectUsage{Object: "topic b.b", Partitions: 4, Records: 5}
	for _, r := range []record{topicRecord("b.b", uuid(11))} {
		want.Bytes += uint64(proto.Size(r))
	}
	if i := slices.IndexFunc(all.Top, func(o ObjectUsage) bool { return o.Object == want.Object }); i < 0 || all.Top[i].Partitions != 4 || all.Top[i].Records != 5 || all.Top[i].Bytes <= want.Bytes {
		t.Errorf("no %+v in %+v", want, all.Top)
	}
	if info, err := InspectSnapshot(bytes.NewReader(stream[:len(stream)-5]), 3); err == nil || info == nil || info.NextOffset != img.NextOffset() || !errors.Is(err, ErrSnapshotTruncated) {
		t.Errorf("of a truncated stream: %+v, %v", info, err)
	}
	if info, err := InspectSnapshot(bytes.NewReader(stream[:20]), 3); err == nil || info != nil {
		t.Errorf("of a stream without a header: %+v, %v", info, err)
	}
}
