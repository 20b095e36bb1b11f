package fsm

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// SnapshotInfo is what a snapshot says of itself and what takes its space.
type SnapshotInfo struct {
	// Format and FeatureLevel that a reader must know.
	Format       uint32
	FeatureLevel int32
	ClusterID    string
	Lineage      Lineage
	Confirmed    bool
	// NextOffset, EpochBase, ControllerEpoch and ClaimOffset as the image has them; see its methods.
	NextOffset, EpochBase, ControllerEpoch, ClaimOffset int64
	// Claim in force; meaningful when ClaimOffset is not negative.
	Claim Claim
	// LastBatchTimeMs is the controller's wall clock at the last batch, milliseconds since 1970 UTC.
	LastBatchTimeMs int64
	// NextProducerID is the first producer id that was not given out.
	NextProducerID int64
	// Digest of the image; zero when the snapshot was not read to its end.
	Digest Digest
	// Bytes of the stream that were read.
	Bytes int64
	// Kinds of records that occur, by number.
	Kinds []KindUsage
	// Top are the objects that take most of the space, the largest first.
	Top []ObjectUsage
}

// KindUsage is what the records of one kind take.
type KindUsage struct {
	// Number of the kind in the metadata log, and its name.
	Number  uint32
	Name    string
	Records uint64
	// Bytes of the encoded records.
	Bytes uint64
}

// ObjectUsage is what one object takes: a topic with its partitions, the configs of a resource, a registration.
type ObjectUsage struct {
	// Object as it is named in errors, for example "topic foo" or "config of broker 1".
	Object string
	// Partitions of a topic, 0 for anything else.
	Partitions uint64
	Records    uint64
	Bytes      uint64
}

// InspectSnapshot reads a stream of WriteSnapshot to its end and verifies it like a SnapshotVerifier. It names at most
// top objects, and holds no more than those and one frame. With an error the information is that of what was read before
// it; it is nil when not even the header could be read.
func InspectSnapshot(r io.Reader, top int) (*SnapshotInfo, error) {
	counted := &countingReader{from: r}
	usage := newUsage(top)
	s := newSnapshotStream(nil)
	s.measure = usage.record
	err := readFrames(counted, s)
	usage.end()
	if err != nil {
		err = fmt.Errorf("inspect snapshot: %w", err)
	}
	if !s.begun {
		return nil, err
	}
	return &SnapshotInfo{
		Format: s.format, FeatureLevel: s.featureLevel,
		ClusterID: s.guard.clusterID, Lineage: s.guard.lineage, Confirmed: !s.guard.unconfirmed,
		NextOffset: s.guard.nextOffset, EpochBase: s.guard.epochBase, ControllerEpoch: s.guard.controllerEpoch,
		ClaimOffset: s.guard.claimOffset, Claim: s.guard.claim, LastBatchTimeMs: s.guard.lastBatchTimeMs, NextProducerID: s.guard.nextProducerID,
		Digest: s.digest, Bytes: counted.n, Kinds: usage.list(), Top: usage.top,
	}, err
}

type countingReader struct {
	from io.Reader
	n    int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.n += int64(n)
	return n, err
}

// usage adds up what records take. An object's records stand together in a snapshot, so one is open at a time.
type usage struct {
	kinds map[uint32]*KindUsage
	// top is sorted and has at most max objects.
	top []ObjectUsage
	max int
	// open is the object whose records are being read; it has none before the first.
	open ObjectUsage
}

func newUsage(top int) *usage { return &usage{kinds: make(map[uint32]*KindUsage), max: max(top, 0)} }

func (u *usage) record(r *metadatav1.Record, o *snapshotObject) {
	bytes, kind := uint64(proto.Size(r)), recordKind(r) //nolint:gosec // a size is not negative
	k := u.kinds[kind]
	if k == nil {
		k = &KindUsage{Number: kind, Name: kindName(kind)}
		u.kinds[kind] = k
	}
	k.Records++
	k.Bytes += bytes
	if o.partition == nil {
		if name := o.name(k.Name); name != u.open.Object {
			u.end()
			u.open.Object = name
		}
	} else {
		u.open.Partitions++
	}
	u.open.Records++
	u.open.Bytes += bytes
}

// end closes the open object and keeps it if it is one of the largest.
func (u *usage) end() {
	o := u.open
	u.open = ObjectUsage{}
	if o.Records == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(u.top, o, func(a, b ObjectUsage) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Object, b.Object))
	})
	if at == u.max {
		return
	}
	u.top = slices.Insert(u.top, at, o)
	if len(u.top) > u.max {
		u.top = u.top[:u.max]
	}
}

func (u *usage) list() []KindUsage {
	list := make([]KindUsage, 0, len(u.kinds))
	for _, k := range u.kinds {
		list = append(list, *k)
	}
	slices.SortFunc(list, func(a, b KindUsage) int { return cmp.Compare(a.Number, b.Number) })
	return list
}

// kindName is the message of a kind of record.
func kindName(number uint32) string {
	for i := range recordKinds.Fields().Len() {
		if f := recordKinds.Fields().Get(i); uint32(f.Number()) == number { //nolint:gosec // a field number is not negative
			return string(f.Message().Name())
		}
	}
	return strconv.FormatUint(uint64(number), 10)
}

// name of the object that a record belongs to, a partition's is that of the topic before it; kind stands in for what
// has no name of its own.
func (o *snapshotObject) name(kind string) string {
	switch {
	case o.controller != nil:
		return controllerName(o.controller.ID)
	case o.broker != nil:
		return brokerName(o.broker.ID)
	case o.topic != "":
		return "topic " + o.topic
	case o.entry != nil:
		return "config of " + o.resource.String()
	}
	return kind
}
