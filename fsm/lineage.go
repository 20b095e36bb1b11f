package fsm

import (
	"errors"
	"fmt"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// LineageID names one unbroken history of the metadata log.
type LineageID struct {
	// Number grows with every lineage born by restore or recovery; the first is 1.
	Number uint64
	// UUID tells apart two lineages that were born with the same number.
	UUID UUID
}

// String returns number and uuid, for example "1/q83vEjRWeJASNFZ4kBI0Vg".
func (id LineageID) String() string { return fmt.Sprintf("%d/%s", id.Number, id.UUID) }

// IsZero reports whether id names no lineage.
func (id LineageID) IsZero() bool { return id == LineageID{} }

// Proto returns the protobuf form.
func (id LineageID) Proto() *metadatav1.LineageID {
	return &metadatav1.LineageID{Number: id.Number, Uuid: id.UUID.Bytes()}
}

// LineageIDFromProto reads the protobuf form; an absent or malformed one is an error.
func LineageIDFromProto(p *metadatav1.LineageID) (LineageID, error) {
	if p == nil {
		return LineageID{}, errors.New("lineage is absent")
	}
	u, err := requireUUID("lineage uuid", p.GetUuid())
	if err != nil {
		return LineageID{}, err
	}
	if p.GetNumber() == 0 {
		return LineageID{}, errors.New("lineage number is 0")
	}
	return LineageID{Number: p.GetNumber(), UUID: u}, nil
}

// Ancestor is a lineage that another one continues.
type Ancestor struct {
	// UUID of the ancestor.
	UUID UUID
	// ForkOffset is the first metadata offset of the ancestor that the descendant does not contain.
	ForkOffset int64
}

// Lineage is a history with the histories that it continues.
type Lineage struct {
	// ID of the lineage itself.
	ID LineageID
	// Ancestors, oldest first. Shared: never written.
	Ancestors []Ancestor
}

// Descends reports whether from is one of the ancestors of l. A lineage is not its own ancestor.
func (l Lineage) Descends(from LineageID) bool {
	for _, a := range l.Ancestors {
		if a.UUID == from.UUID {
			return l.ID.Number > from.Number
		}
	}
	return false
}

// maxAncestors bounds the ancestors of a lineage: each is one disaster.
const maxAncestors = 1024

// lineageFromProto reads a lineage with its ancestors.
func lineageFromProto(id *metadatav1.LineageID, ancestors []*metadatav1.LineageAncestor) (Lineage, error) {
	lid, err := LineageIDFromProto(id)
	if err != nil {
		return Lineage{}, err
	}
	if len(ancestors) > maxAncestors {
		return Lineage{}, fmt.Errorf("%d ancestors, at most %d", len(ancestors), maxAncestors)
	}
	l := Lineage{ID: lid}
	for _, a := range ancestors {
		u, err := requireUUID("ancestor uuid", a.GetUuid())
		if err != nil {
			return Lineage{}, err
		}
		if a.GetForkOffset() < 0 {
			return Lineage{}, fmt.Errorf("fork offset %d of ancestor %s is negative", a.GetForkOffset(), u)
		}
		l.Ancestors = append(l.Ancestors, Ancestor{UUID: u, ForkOffset: a.GetForkOffset()})
	}
	return l, nil
}

// ancestorsProto is the protobuf form of the ancestors.
func (l Lineage) ancestorsProto() []*metadatav1.LineageAncestor {
	var list []*metadatav1.LineageAncestor
	for _, a := range l.Ancestors {
		list = append(list, &metadatav1.LineageAncestor{Uuid: a.UUID.Bytes(), ForkOffset: a.ForkOffset})
	}
	return list
}
