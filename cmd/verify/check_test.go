package verify

import (
	"slices"
	"testing"
)

// honest is a history in which nothing is wrong: two producers, two partitions, one record sent and not acknowledged.
func honest() ([]Acked, []Read) {
	var acked []Acked
	var read []Read
	for partition := range int32(2) {
		for offset := range int64(10) {
			id := ID{Producer: uint32(offset % 2), Sequence: uint64(partition)*100 + uint64(offset)}
			read = append(read, Read{ID: id, Partition: partition, Offset: offset})
			if offset != 7 {
				acked = append(acked, Acked{ID: id, Partition: partition, Offset: offset})
			}
		}
	}
	return acked, read
}

func kinds(violations []Violation) []Kind {
	var out []Kind
	for _, v := range violations {
		if !slices.Contains(out, v.Kind) {
			out = append(out, v.Kind)
		}
	}
	slices.Sort(out)
	return out
}

func TestCheckAcceptsAnHonestHistory(t *testing.T) {
	acked, read := honest()
	if v := Check(acked, read); len(v) != 0 {
		t.Fatalf("honest history: %v", v)
	}
	slices.Reverse(read) // the order of reading does not matter, the offsets do
	if v := Check(acked, read); len(v) != 0 {
		t.Fatalf("honest history read backwards: %v", v)
	}
}

func TestCheckFindsEachDoctoredHistory(t *testing.T) {
	for name, c := range map[string]struct {
		doctor func(acked []Acked, read []Read) ([]Acked, []Read)
		want   []Kind
	}{
		"lost at the end":              {func(a []Acked, r []Read) ([]Acked, []Read) { return a, r[:len(r)-1] }, []Kind{Lost}},
		"lost at the very first place": {func(a []Acked, r []Read) ([]Acked, []Read) { return a, r[1:] }, []Kind{Lost}},
		"lost in the middle":           {func(a []Acked, r []Read) ([]Acked, []Read) { return a, slices.Delete(r, 4, 5) }, []Kind{Gap, Lost}},
		"doubled": {func(a []Acked, r []Read) ([]Acked, []Read) {
			return a, append(r, Read{ID: r[19].ID, Partition: 1, Offset: 10})
		}, []Kind{Doubled}},
		"swapped": {func(a []Acked, r []Read) ([]Acked, []Read) {
			r[2].ID, r[4].ID = r[4].ID, r[2].ID
			return a, r
		}, []Kind{Moved, Swapped}},
		"changed": {func(a []Acked, r []Read) ([]Acked, []Read) {
			r[3] = Read{Partition: 0, Offset: 3, Damage: "value checksum differs"}
			return a, r
		}, []Kind{Changed, Lost}},
		"acknowledged elsewhere": {func(a []Acked, r []Read) ([]Acked, []Read) {
			a[0].Offset = 3
			return a, r
		}, []Kind{Moved}},
		"everything lost": {func(a []Acked, _ []Read) ([]Acked, []Read) { return a, nil }, []Kind{Lost}},
	} {
		t.Run(name, func(t *testing.T) {
			acked, read := honest()
			got := kinds(Check(c.doctor(acked, read)))
			if !slices.Equal(got, c.want) {
				t.Fatalf("violations %v, want %v", got, c.want)
			}
		})
	}
}

func TestEveryChangedByteOfAValueIsFound(t *testing.T) {
	value := encodeValue(ID{Producer: 3, Sequence: 1 << 40}, 100)
	if id, err := decodeValue(value); err != nil || id != (ID{3, 1 << 40}) {
		t.Fatalf("decodeValue = %v, %v", id, err)
	}
	for i := range value {
		value[i] ^= 1
		if id, err := decodeValue(value); err == nil {
			t.Fatalf("byte %d changed, and it was read as %v", i, id)
		}
		value[i] ^= 1
	}
}
