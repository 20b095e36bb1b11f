package fsm

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/benbjohnson/immutable"
	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// maxQuotas bounds the quotas of a cluster (I20).
const maxQuotas = 100_000

// QuotaEntity names a kind of client, by user, client id or address; for a part that is a default the name is absent.
type QuotaEntity struct {
	// User, ClientID and IP are the parts. Invariant: an IP stands alone, and there is at least one part.
	User, ClientID, IP QuotaPart
}

// QuotaPart is one part of the name of a kind of client.
type QuotaPart struct {
	// Given tells that the part is there; Default that it stands for all that have no quota of their own.
	Given, Default bool
	// Name of the part, unless it is a default.
	Name string
}

// Quota is the value of one key for a kind of client.
type Quota struct {
	// Entity that the quota is for.
	Entity QuotaEntity
	// Key as Kafka names it, for example "producer_byte_rate".
	Key string
	// Value of the quota, in the unit of its key.
	Value float64
}

// quotaID is what a quota is found by.
type quotaID struct {
	entity QuotaEntity
	key    string
}

// quotaIDs orders quotas by entity and key.
type quotaIDs struct{}

// Compare implements immutable.Comparer.
func (quotaIDs) Compare(a, b quotaID) int { return compareQuotaIDs(a, b) }

func compareQuotaIDs(a, b quotaID) int {
	return cmp.Or(compareParts(a.entity.User, b.entity.User), compareParts(a.entity.ClientID, b.entity.ClientID),
		compareParts(a.entity.IP, b.entity.IP), strings.Compare(a.key, b.key))
}

func compareParts(a, b QuotaPart) int {
	return cmp.Or(compareBools(a.Given, b.Given), compareBools(a.Default, b.Default), strings.Compare(a.Name, b.Name))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func newQuotas() *immutable.SortedMap[quotaID, float64] {
	return immutable.NewSortedMap[quotaID, float64](quotaIDs{})
}

// QuotaEntityFromProto reads the name of a kind of client, or says what is wrong with it.
func QuotaEntityFromProto(parts []*metadatav1.QuotaEntity) (QuotaEntity, error) {
	var e QuotaEntity
	for _, p := range parts {
		to := map[string]*QuotaPart{"user": &e.User, "client-id": &e.ClientID, "ip": &e.IP}[p.GetType()]
		if to == nil {
			return e, fmt.Errorf("entity type %.60q is not user, client-id or ip", p.GetType())
		}
		if to.Given {
			return e, fmt.Errorf("entity type %s is there twice", p.GetType())
		}
		if p.Name != nil && (p.GetName() == "" || len(p.GetName()) > maxStringBytes) {
			return e, fmt.Errorf("the name of the %s has %d bytes, want 1 to %d", p.GetType(), len(p.GetName()), maxStringBytes)
		}
		*to = QuotaPart{Given: true, Default: p.Name == nil, Name: p.GetName()}
	}
	switch {
	case !e.User.Given && !e.ClientID.Given && !e.IP.Given:
		return e, fmt.Errorf("the entity has no part")
	case e.IP.Given && (e.User.Given || e.ClientID.Given):
		return e, fmt.Errorf("an ip stands alone, without user or client-id")
	}
	return e, nil
}

// Proto returns the parts, by type.
func (e QuotaEntity) Proto() []*metadatav1.QuotaEntity {
	var parts []*metadatav1.QuotaEntity
	for _, p := range []struct {
		of   QuotaPart
		name string
	}{{e.ClientID, "client-id"}, {e.IP, "ip"}, {e.User, "user"}} {
		if !p.of.Given {
			continue
		}
		part := &metadatav1.QuotaEntity{Type: p.name}
		if !p.of.Default {
			part.Name = proto.String(p.of.Name)
		}
		parts = append(parts, part)
	}
	return parts
}

// String returns the parts as Kafka's tools name them.
func (e QuotaEntity) String() string {
	var words []string
	for _, p := range e.Proto() {
		if p.Name == nil {
			words = append(words, "default "+p.GetType())
			continue
		}
		words = append(words, p.GetType()+" "+p.GetName())
	}
	return strings.Join(words, ", ")
}

// Quotas yields all quotas, by entity and key.
func (img *Image) Quotas() iter.Seq[Quota] {
	return func(yield func(Quota) bool) {
		for it := img.quotas.Iterator(); !it.Done(); {
			if id, value, _ := it.Next(); !yield(Quota{Entity: id.entity, Key: id.key, Value: value}) {
				return
			}
		}
	}
}

// Quota returns the value of one key for a kind of client.
func (img *Image) Quota(e QuotaEntity, key string) (float64, bool) {
	return img.quotas.Get(quotaID{e, key})
}

// Record returns the quota as the record that states it.
func (q Quota) Record() *metadatav1.ClientQuota {
	return &metadatav1.ClientQuota{Entity: q.Entity.Proto(), Key: q.Key, Value: proto.Float64(q.Value)}
}

// quotaFromRecord reads a record; set is false when it takes the quota away.
func quotaFromRecord(r *metadatav1.ClientQuota) (q Quota, set bool, err error) {
	if q.Entity, err = QuotaEntityFromProto(r.GetEntity()); err != nil {
		return q, false, err
	}
	if q.Key = r.GetKey(); q.Key == "" || len(q.Key) > maxStringBytes {
		return q, false, fmt.Errorf("a key of %d bytes, want 1 to %d", len(q.Key), maxStringBytes)
	}
	if q.Value = r.GetValue(); r.Value != nil && !isQuota(q.Value) {
		return q, false, fmt.Errorf("%s=%v is not above 0 and finite", q.Key, q.Value)
	}
	return q, r.Value != nil, nil
}

// isQuota refuses what has no order or no one spelling: not a number, infinity, negative and positive zero.
func isQuota(v float64) bool { return v > 0 && !math.IsInf(v, 1) }

func (q Quota) id() quotaID { return quotaID{q.Entity, q.Key} }

func (q Quota) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], quotaObject)
	for _, p := range []QuotaPart{q.Entity.User, q.Entity.ClientID, q.Entity.IP} {
		c = c.bool(p.Given).bool(p.Default).string(p.Name)
	}
	c = c.string(q.Key)
	c = c.int64(int64(math.Float64bits(q.Value))) //nolint:gosec // the bits, not the number
	return c.sum()
}

// clientQuota sets a quota or takes it away.
func (f *fold) clientQuota(r *metadatav1.ClientQuota) error {
	q, set, err := quotaFromRecord(r)
	if err != nil {
		return violation(0, "quota", "%v", err)
	}
	if old, ok := f.img.quotas.Get(q.id()); ok {
		f.remove(Quota{q.Entity, q.Key, old}.sum())
	}
	put(&f.quotas, q.id(), struct{}{})
	if !set {
		f.img.quotas = f.img.quotas.Delete(q.id())
		return nil
	}
	f.add(q.sum())
	f.img.quotas = f.img.quotas.Set(q.id(), q.Value)
	if f.img.quotas.Len() > maxQuotas {
		return violation(20, "quotas", "%d of them, at most %d", f.img.quotas.Len(), maxQuotas)
	}
	return nil
}

func checkQuotas(img *Image) *Violation {
	if img.quotas.Len() > maxQuotas {
		return violation(20, "quotas", "%d of them, at most %d", img.quotas.Len(), maxQuotas)
	}
	for q := range img.Quotas() {
		if read, set, err := quotaFromRecord(q.Record()); err != nil || !set || read != q {
			return violation(0, "quota of "+q.Entity.String(), "%s=%v: %v", q.Key, q.Value, err)
		}
	}
	return nil
}

// quotaEntities are the entities of ids, each once, in order.
func quotaEntities(ids map[quotaID]struct{}) []QuotaEntity {
	list := make([]QuotaEntity, 0, len(ids))
	for id := range ids {
		list = append(list, id.entity)
	}
	slices.SortFunc(list, compareEntities)
	return slices.Compact(list)
}

func compareEntities(a, b QuotaEntity) int {
	return compareQuotaIDs(quotaID{entity: a}, quotaID{entity: b})
}
