package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Digest is a fingerprint of an image: two images with equal digests are the same (I1).
//
// It is the sum modulo 2^128 of one hash for each object of the image and one for the guard's state. A sum does
// not care for order, and one object is replaced by subtracting its old hash and adding its new one, so that a
// digest costs what changed. Only canonical fields are hashed, never protobuf bytes, which may differ between
// two builds that say the same.
type Digest [16]byte

// String returns 32 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Prefix returns the first 8 bytes, big endian: what an envelope carries as digest_before.
func (d Digest) Prefix() uint64 { return binary.BigEndian.Uint64(d[:8]) }

// sum is a Digest as two words, so that it can be added to.
type sum struct{ hi, lo uint64 }

func (s sum) add(t sum) sum {
	lo, carry := bits.Add64(s.lo, t.lo, 0)
	hi, _ := bits.Add64(s.hi, t.hi, carry)
	return sum{hi: hi, lo: lo}
}

func (s sum) sub(t sum) sum {
	lo, borrow := bits.Sub64(s.lo, t.lo, 0)
	hi, _ := bits.Sub64(s.hi, t.hi, borrow)
	return sum{hi: hi, lo: lo}
}

func (s sum) digest() Digest {
	var d Digest
	binary.BigEndian.PutUint64(d[:8], s.hi)
	binary.BigEndian.PutUint64(d[8:], s.lo)
	return d
}

// objectKind keys the hash of an object, so that two objects of different kinds never hash the same bytes.
type objectKind byte

const (
	guardObject objectKind = iota + 1
	brokerObject
	controllerObject
	topicObject
	partitionObject
	configObject
)

// canonical collects the fields of one object in a form with exactly one spelling: integers big endian, strings
// and lists preceded by their length.
type canonical struct{ buf []byte }

// canonicalRoom is what most objects need; a caller keeps it on its stack, because a partition is hashed twice at
// every change.
type canonicalRoom [256]byte

func newCanonical(room []byte, kind objectKind) canonical {
	return canonical{buf: append(append(room[:0], "skiff.digest.1"...), byte(kind))}
}

func (c *canonical) uint8(v uint8) { c.buf = append(c.buf, v) }

func (c *canonical) bool(v bool) {
	if v {
		c.uint8(1)
		return
	}
	c.uint8(0)
}

func (c *canonical) int32(v int32) { c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v)) }

func (c *canonical) int64(v int64) { c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v)) }

func (c *canonical) length(n int) { c.int64(int64(n)) }

func (c *canonical) uuid(u UUID) { c.buf = append(c.buf, u[:]...) }

func (c *canonical) string(s string) {
	c.length(len(s))
	c.buf = append(c.buf, s...)
}

func (c *canonical) int32s(list []int32) {
	c.length(len(list))
	for _, v := range list {
		c.int32(v)
	}
}

func (c *canonical) uuids(list []UUID) {
	c.length(len(list))
	for _, u := range list {
		c.uuid(u)
	}
}

func (c *canonical) listeners(list []Listener) {
	c.length(len(list))
	for _, l := range list {
		c.string(l.Name)
		c.string(l.Host)
		c.int32(int32(l.Port))
		c.int32(l.SecurityProtocol)
	}
}

func (c *canonical) features(list []Feature) {
	c.length(len(list))
	for _, f := range list {
		c.string(f.Name)
		c.int32(f.Min)
		c.int32(f.Max)
	}
}

// sum hashes what was collected.
func (c *canonical) sum() sum {
	h := sha256.Sum256(c.buf)
	return sum{hi: binary.BigEndian.Uint64(h[0:8]), lo: binary.BigEndian.Uint64(h[8:16])}
}

func (b *Broker) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], brokerObject)
	c.int32(b.ID)
	c.int64(b.Epoch)
	c.uuid(b.IncarnationID)
	c.listeners(b.Listeners)
	c.features(b.Features)
	c.bool(b.HasRack)
	c.string(b.Rack)
	c.bool(b.Fenced)
	c.bool(b.InControlledShutdown)
	c.uuids(b.Directories)
	return c.sum()
}

func (n *Controller) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], controllerObject)
	c.int32(n.ID)
	c.uuid(n.DirectoryID)
	c.uuid(n.IncarnationID)
	c.listeners(n.Listeners)
	c.features(n.Features)
	return c.sum()
}

// topicSum hashes a topic without its partitions, which are objects of their own.
func topicSum(id UUID, name string) sum {
	var room canonicalRoom
	c := newCanonical(room[:], topicObject)
	c.uuid(id)
	c.string(name)
	return c.sum()
}

func (p *Partition) sum(id PartitionID) sum {
	var room canonicalRoom
	c := newCanonical(room[:], partitionObject)
	c.uuid(id.Topic)
	c.int32(id.Partition)
	c.int32s(p.Replicas)
	c.int32s(p.ISR)
	c.int32s(p.Adding)
	c.int32s(p.Removing)
	c.int32(p.Leader)
	c.int32(p.LeaderEpoch)
	c.int32(p.PartitionEpoch)
	c.bool(p.Recovering)
	c.bool(p.AwaitingInventory)
	c.int32s(p.ELR)
	c.int32s(p.LastKnownELR)
	c.uuids(p.Directories)
	return c.sum()
}

func configSum(r ConfigResource, e ConfigEntry) sum {
	var room canonicalRoom
	c := newCanonical(room[:], configObject)
	c.int32(int32(r.Type))
	c.string(r.Name)
	c.string(e.Key)
	c.string(e.Value)
	return c.sum()
}

func (g *guard) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], guardObject)
	c.string(g.clusterID)
	c.int64(int64(g.lineage.ID.Number))
	c.uuid(g.lineage.ID.UUID)
	c.length(len(g.lineage.Ancestors))
	for _, a := range g.lineage.Ancestors {
		c.uuid(a.UUID)
		c.int64(a.ForkOffset)
	}
	c.int64(g.nextOffset)
	c.int64(g.epochBase)
	c.int64(g.controllerEpoch)
	c.int64(g.claimOffset)
	c.int32(g.claim.NodeID)
	c.uuid(g.claim.DirectoryID)
	c.uuid(g.claim.IncarnationID)
	c.uuid(g.claim.Nonce)
	c.int64(g.lastBatchTimeMs)
	c.int64(g.nextProducerID)
	return c.sum()
}
