package stray

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/skiffmq/skiff/fsm"
)

// Directories of the data directory.
const (
	// PartitionsDir holds the replicas that the metadata gives to the broker.
	PartitionsDir = "partitions"
	// Dir holds the strays.
	Dir = "stray"
)

// uuidChars is the length of a topic id in a name; the id itself may contain the dash that follows it.
const uuidChars = 22

// PartitionName is the name of a replica's directory, "<topic id>-<partition>".
func PartitionName(id fsm.PartitionID) string { return fmt.Sprintf("%s-%d", id.Topic, id.Partition) }

// ParsePartitionName reads what PartitionName writes.
func ParsePartitionName(name string) (fsm.PartitionID, error) {
	if len(name) < uuidChars+2 || name[uuidChars] != '-' {
		return fsm.PartitionID{}, fmt.Errorf("%q is not <topic id>-<partition>", name)
	}
	topic, err := fsm.ParseUUID(name[:uuidChars])
	if err != nil {
		return fsm.PartitionID{}, fmt.Errorf("%q: %w", name, err)
	}
	n, err := strconv.ParseInt(name[uuidChars+1:], 10, 32)
	if err != nil || n < 0 {
		return fsm.PartitionID{}, fmt.Errorf("%q: bad partition number", name)
	}
	return fsm.PartitionID{Topic: topic, Partition: int32(n)}, nil
}

// Name says which replica was put away, and which metadata took it from the broker.
type Name struct {
	// ID of the partition.
	ID fsm.PartitionID
	// Lineage is the number of the lineage whose metadata took it.
	Lineage uint64
	// Offset is the metadata offset that was applied when it did.
	Offset int64
}

// String is the name of the directory, "<topic id>-<partition>@<lineage>.<offset>".
func (n Name) String() string {
	return fmt.Sprintf("%s@%d.%d", PartitionName(n.ID), n.Lineage, n.Offset)
}

// ParseName reads what String writes.
func ParseName(s string) (Name, error) {
	partition, taken, ok := strings.Cut(s, "@")
	number, offset, ok2 := strings.Cut(taken, ".")
	if !ok || !ok2 {
		return Name{}, fmt.Errorf("%q is not <topic id>-<partition>@<lineage>.<offset>", s)
	}
	id, err := ParsePartitionName(partition)
	if err != nil {
		return Name{}, err
	}
	n := Name{ID: id}
	if n.Lineage, err = strconv.ParseUint(number, 10, 64); err != nil {
		return Name{}, fmt.Errorf("%q: lineage: %w", s, err)
	}
	if n.Offset, err = strconv.ParseInt(offset, 10, 64); err != nil {
		return Name{}, fmt.Errorf("%q: offset: %w", s, err)
	}
	return n, nil
}

// compare puts what was put away first, first.
func (n Name) compare(m Name) int {
	return cmp.Or(cmp.Compare(n.Lineage, m.Lineage), cmp.Compare(n.Offset, m.Offset), cmp.Compare(n.String(), m.String()))
}
