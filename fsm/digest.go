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
	recoveryObject
	featureObject
	quotaObject
	answerObject
)

// canonical collects the fields of one object in a form with exactly one spelling: integers big endian, strings
// and lists preceded by their length. Its methods append and return, so that it can live on the caller's stack: a
// partition is hashed twice at every change.
type canonical []byte

// canonicalRoom is what most objects need.
type canonicalRoom [256]byte

func newCanonical(room []byte, kind objectKind) canonical {
	return append(append(room[:0], "skiff.digest.1"...), byte(kind))
}

func (c canonical) bool(v bool) canonical {
	if v {
		return append(c, 1)
	}
	return append(c, 0)
}

func (c canonical) int32(v int32) canonical { return binary.BigEndian.AppendUint32(c, uint32(v)) }

func (c canonical) int64(v int64) canonical { return binary.BigEndian.AppendUint64(c, uint64(v)) }

func (c canonical) length(n int) canonical { return c.int64(int64(n)) }

func (c canonical) uuid(u UUID) canonical { return append(c, u[:]...) }

func (c canonical) string(s string) canonical { return append(c.length(len(s)), s...) }

func (c canonical) int32s(list []int32) canonical {
	c = c.length(len(list))
	for _, v := range list {
		c = c.int32(v)
	}
	return c
}

func (c canonical) uuids(list []UUID) canonical {
	c = c.length(len(list))
	for _, u := range list {
		c = c.uuid(u)
	}
	return c
}

func (c canonical) listeners(list []Listener) canonical {
	c = c.length(len(list))
	for _, l := range list {
		c = c.string(l.Name).string(l.Host).int32(int32(l.Port)).int32(l.SecurityProtocol)
	}
	return c
}

func (c canonical) features(list []Feature) canonical {
	c = c.length(len(list))
	for _, f := range list {
		c = c.string(f.Name).int32(f.Min).int32(f.Max)
	}
	return c
}

// sum hashes what was collected.
func (c canonical) sum() sum {
	h := sha256.Sum256(c)
	return sum{hi: binary.BigEndian.Uint64(h[0:8]), lo: binary.BigEndian.Uint64(h[8:16])}
}

func (b *Broker) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], brokerObject)
	c = c.int32(b.ID)
	c = c.int64(b.Epoch)
	c = c.uuid(b.IncarnationID)
	c = c.listeners(b.Listeners)
	c = c.features(b.Features)
	c = c.bool(b.HasRack)
	c = c.string(b.Rack)
	c = c.bool(b.Fenced)
	c = c.bool(b.InControlledShutdown)
	c = c.uuids(b.Directories)
	return c.sum()
}

func (n *Controller) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], controllerObject)
	c = c.int32(n.ID)
	c = c.uuid(n.DirectoryID)
	c = c.uuid(n.IncarnationID)
	c = c.listeners(n.Listeners)
	c = c.features(n.Features)
	return c.sum()
}

// topicSum hashes a topic without its partitions, which are objects of their own.
func topicSum(id UUID, name string) sum {
	var room canonicalRoom
	c := newCanonical(room[:], topicObject)
	c = c.uuid(id)
	c = c.string(name)
	return c.sum()
}

func (p *Partition) sum(id PartitionID) sum {
	var room canonicalRoom
	c := newCanonical(room[:], partitionObject)
	c = c.uuid(id.Topic)
	c = c.int32(id.Partition)
	c = c.int32s(p.Replicas)
	c = c.int32s(p.ISR)
	c = c.int32s(p.Adding)
	c = c.int32s(p.Removing)
	c = c.int32(p.Leader)
	c = c.int32(p.LeaderEpoch)
	c = c.int32(p.PartitionEpoch)
	c = c.bool(p.Recovering)
	c = c.bool(p.AwaitingInventory)
	c = c.int32s(p.ELR)
	c = c.int32s(p.LastKnownELR)
	c = c.uuids(p.Directories)
	return c.sum()
}

func configSum(r ConfigResource, e ConfigEntry) sum {
	var room canonicalRoom
	c := newCanonical(room[:], configObject)
	c = c.int32(int32(r.Type))
	c = c.string(r.Name)
	c = c.string(e.Key)
	c = c.string(e.Value)
	return c.sum()
}

func (e *RecoveryElection) sum(id PartitionID) sum {
	var room canonicalRoom
	c := newCanonical(room[:], recoveryObject)
	c = c.uuid(id.Topic)
	c = c.int32(id.Partition)
	c = c.int32(e.Leader)
	c = c.int32(e.LeaderEpoch)
	c = c.int32(e.LastLeaderEpoch)
	c = c.int64(e.LogEndOffset)
	c = c.int32s(e.Missing)
	c = c.length(len(e.Late))
	for _, l := range e.Late {
		c = c.int32(l.Broker)
		c = c.int32(l.LastLeaderEpoch)
		c = c.int64(l.LogStartOffset)
		c = c.int64(l.LogEndOffset)
	}
	return c.sum()
}

func (g *guard) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], guardObject)
	c = c.string(g.clusterID)
	c = c.int64(int64(g.lineage.ID.Number))
	c = c.uuid(g.lineage.ID.UUID)
	c = c.length(len(g.lineage.Ancestors))
	for _, a := range g.lineage.Ancestors {
		c = c.uuid(a.UUID)
		c = c.int64(a.ForkOffset)
	}
	c = c.int64(g.nextOffset)
	c = c.int64(g.epochBase)
	c = c.int64(g.controllerEpoch)
	c = c.int64(g.claimOffset)
	c = c.int32(g.claim.NodeID)
	c = c.uuid(g.claim.DirectoryID)
	c = c.uuid(g.claim.IncarnationID)
	c = c.uuid(g.claim.Nonce)
	c = c.int64(g.lastBatchTimeMs)
	c = c.int64(g.nextProducerID)
	if g.unconfirmed {
		// Present only then: the digest of an image that was written before lineages could be unconfirmed stays.
		c = c.bool(true)
	}
	return c.sum()
}
