package fsm

import (
	"encoding/base64"
	"fmt"
)

// UUID is a 128 bit identifier: of a topic, a directory, an incarnation, a cluster or a lineage.
type UUID [16]byte

// uuidText is Kafka's text form of a uuid: unpadded base64url.
var uuidText = base64.RawURLEncoding.Strict()

// String returns the 22 character base64url form that Kafka uses.
func (u UUID) String() string { return uuidText.EncodeToString(u[:]) }

// Bytes returns a copy of the 16 bytes, as the protobuf messages carry them.
func (u UUID) Bytes() []byte { return append([]byte(nil), u[:]...) }

// IsZero reports whether u is the zero uuid, which names nothing.
func (u UUID) IsZero() bool { return u == UUID{} }

// ParseUUID reads the 22 character base64url form.
func ParseUUID(text string) (UUID, error) {
	raw, err := uuidText.DecodeString(text)
	if err != nil {
		return UUID{}, fmt.Errorf("parse uuid %q: %w", text, err)
	}
	return UUIDFromBytes(raw)
}

// UUIDFromBytes takes the 16 bytes of a protobuf message.
func UUIDFromBytes(raw []byte) (UUID, error) {
	if len(raw) != len(UUID{}) {
		return UUID{}, fmt.Errorf("a uuid has 16 bytes, got %d", len(raw))
	}
	return UUID(raw), nil
}

// requireUUID is UUIDFromBytes for a field that must name something.
func requireUUID(field string, raw []byte) (UUID, error) {
	u, err := UUIDFromBytes(raw)
	if err != nil {
		return UUID{}, fmt.Errorf("%s: %w", field, err)
	}
	if u.IsZero() {
		return UUID{}, fmt.Errorf("%s is the zero uuid", field)
	}
	return u, nil
}

// uuidList converts a repeated field of uuids; nil for an empty one.
func uuidList(field string, raw [][]byte) ([]UUID, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	list := make([]UUID, len(raw))
	for i, b := range raw {
		u, err := UUIDFromBytes(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		list[i] = u
	}
	return list, nil
}

// uuidBytes is the reverse of uuidList.
func uuidBytes(list []UUID) [][]byte {
	if len(list) == 0 {
		return nil
	}
	raw := make([][]byte, len(list))
	for i, u := range list {
		raw[i] = u.Bytes()
	}
	return raw
}
