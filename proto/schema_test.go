// Package proto_test holds the schema of the metadata log to the rules that buf has no rule for.
package proto_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// planned are the numbers of the kinds that are still to come. A number that a cluster has written once means that
// kind for ever, so they are fixed before anything is written.
var planned = map[int]string{
	15: "VoterRemoved",
	16: "ControllerUnregistered",
	18: "AccessControlEntry",
	19: "RemoveAccessControlEntry",
	20: "UserScramCredential",
	21: "RemoveUserScramCredential",
	22: "DelegationToken",
	23: "RemoveDelegationToken",
}

// noDelta are the kinds whose fold leaves no trace in a Delta, with the reason.
var noDelta = map[string]string{
	"LineageStarted": "is folded offline into the first image of a lineage and refused in every entry",
}

// noSnapshotHome are the kinds that no snapshot has a record of, with the reason.
var noSnapshotHome = map[string]string{
	"PartitionChange":          "changes a Partition, which is written whole",
	"RemoveTopic":              "removes what is then not written",
	"UnregisterBroker":         "removes what is then not written",
	"BrokerRegistrationChange": "changes a RegisterBroker, which is written whole",
	"ControllerClaimed":        "is in the header",
	"LineageStarted":           "is in the header",
	"LineageConfirmed":         "is in the header",
	"ClearElr":                 "changes Partitions, which are written whole",
}

// files of the schema, as the generated code describes them.
var files = []protoreflect.FileDescriptor{
	metadatav1.File_metadata_v1_record_proto,
	metadatav1.File_metadata_v1_snapshot_proto,
}

// messages are all of them, nested ones too.
func messages(in protoreflect.MessageDescriptors) []protoreflect.MessageDescriptor {
	var list []protoreflect.MessageDescriptor
	for i := range in.Len() {
		list = append(list, in.Get(i))
		list = append(list, messages(in.Get(i).Messages())...)
	}
	return list
}

// TestNoMapsNoFloats: the order of a map and the bits of a float differ between builds that mean the same.
func TestNoMapsNoFloats(t *testing.T) {
	fields := 0
	for _, file := range files {
		for _, m := range messages(file.Messages()) {
			for i := range m.Fields().Len() {
				f := m.Fields().Get(i)
				fields++
				if f.IsMap() {
					t.Errorf("%s is a map", f.FullName())
				}
				if m.Name() == "ClientQuota" && f.Name() == "value" {
					continue // Kafka's quotas are floats; zero and what is no number are refused, so that each value has one spelling
				}
				if f.Kind() == protoreflect.FloatKind || f.Kind() == protoreflect.DoubleKind {
					t.Errorf("%s is a float", f.FullName())
				}
			}
		}
	}
	if fields < 50 {
		t.Fatalf("only %d fields were looked at", fields)
	}
}

// kinds are the members of Record's oneof by number, named by their message.
func kinds() map[int]string {
	of := (*metadatav1.Record)(nil).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	byNumber := make(map[int]string)
	for i := range of.Len() {
		byNumber[int(of.Get(i).Number())] = string(of.Get(i).Message().Name())
	}
	return byNumber
}

// TestChangesHaveExplicitPresence: in a record that states what changed, an absent field did not change, so every
// field but the keys must be able to be absent.
func TestChangesHaveExplicitPresence(t *testing.T) {
	keys := []protoreflect.Name{"topic_id", "partition_id", "broker_id", "broker_epoch"}
	for _, m := range []protoreflect.MessageDescriptor{
		(*metadatav1.PartitionChange)(nil).ProtoReflect().Descriptor(),
		(*metadatav1.BrokerRegistrationChange)(nil).ProtoReflect().Descriptor(),
	} {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if !slices.Contains(keys, f.Name()) && (f.IsList() || !f.HasPresence()) {
				t.Errorf("%s cannot be absent", f.FullName())
			}
		}
	}
}

// switches returns the kinds that the type switches of a source file of fsm have a case for, by function.
func switches(t *testing.T, path string) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CaseClause)
			if !ok {
				return true
			}
			for _, e := range c.List {
				if star, ok := e.(*ast.StarExpr); ok {
					if sel, ok := star.X.(*ast.SelectorExpr); ok {
						found[f.Name.Name] = append(found[f.Name.Name], strings.TrimPrefix(sel.Sel.Name, "Record_"))
					}
				}
			}
			return true
		})
	}
	return found
}

// messageOfCase is the name of the message of a generated oneof wrapper: protoc-gen-go names that after the field.
func messageOfCase(name string) string { return strings.Replace(name, "Ids", "IDs", 1) }

// TestEveryKindIsFolded: each kind has a case in the fold, changes what a delta shows, and has its home in a
// snapshot, or says here why not.
func TestEveryKindIsFolded(t *testing.T) {
	folded := sorted(switches(t, "../fsm/fold.go")["record"])
	inSnapshot := sorted(switches(t, "../fsm/snapshot_object.go")["objectFromRecord"])
	deltas := deltaKinds(t)
	for number, kind := range kinds() {
		if !slices.Contains(folded, kind) {
			t.Errorf("%d %s has no fold", number, kind)
		}
		if exempt := noSnapshotHome[kind] != ""; exempt == slices.Contains(inSnapshot, kind) {
			t.Errorf("%d %s: in a snapshot %t, exempt %t", number, kind, slices.Contains(inSnapshot, kind), exempt)
		}
		if exempt := noDelta[kind] != ""; exempt == slices.Contains(deltas, kind) {
			t.Errorf("%d %s: in a delta %t, exempt %t", number, kind, slices.Contains(deltas, kind), exempt)
		}
	}
	if len(folded) != len(kinds()) {
		t.Errorf("the fold has cases for %v", folded)
	}
}

// deltaKinds are the kinds that the documentation gives a field of Delta; TestDeltaShows in fsm verifies each.
func deltaKinds(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, row := range table(t) {
		if row.delta != "" && row.delta != "-" {
			list = append(list, row.kind)
		}
	}
	return list
}

func sorted(cases []string) []string {
	var list []string
	for _, c := range cases {
		list = append(list, messageOfCase(c))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

type row struct {
	number                int
	kind, delta, snapshot string
}

var tableRow = regexp.MustCompile(`^\| (\d+) \| (\w+) \|([^|]*)\|([^|]*)\|([^|]*)\|$`)

// table is the table of record numbers in the documentation.
func table(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("../docs/formats/metadata-log.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		m := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row{number: n, kind: m[2], delta: strings.TrimSpace(m[4]), snapshot: strings.TrimSpace(m[5])})
	}
	return rows
}

// TestDocumentedNumbers: the table has every kind under its number, and the planned ones under theirs.
func TestDocumentedNumbers(t *testing.T) {
	documented := make(map[int]string)
	for _, r := range table(t) {
		if other, twice := documented[r.number]; twice {
			t.Errorf("number %d is given to %s and %s", r.number, other, r.kind)
		}
		documented[r.number] = r.kind
	}
	want := maps.Clone(planned)
	maps.Copy(want, kinds())
	for _, n := range slices.Sorted(maps.Keys(want)) {
		if documented[n] != want[n] {
			t.Errorf("number %d is %q in docs/formats/metadata-log.md, want %q", n, documented[n], want[n])
		}
	}
	if len(documented) != len(want) {
		t.Errorf("%d numbers are documented, want %d", len(documented), len(want))
	}
}

// TestPlannedNumbersAreKept: a planned number is used for that kind or not at all, and no other number is planned for
// a kind that exists.
func TestPlannedNumbersAreKept(t *testing.T) {
	for number, kind := range kinds() {
		if plan, ok := planned[number]; ok && plan != kind {
			t.Errorf("number %d is kept for %s and used for %s", number, plan, kind)
		}
		for n, plan := range planned {
			if plan == kind && n != number {
				t.Errorf("%s is planned as %d and used as %d", kind, n, number)
			}
		}
	}
}

// TestSnapshotColumnIsTrue: what the documentation says of a kind's home in a snapshot is what the code does.
func TestSnapshotColumnIsTrue(t *testing.T) {
	existing := kinds()
	for _, r := range table(t) {
		if existing[r.number] == "" {
			continue
		}
		if got, want := r.snapshot == "record", noSnapshotHome[r.kind] == ""; got != want {
			t.Errorf("%s: the table says %q, a record of its own: %t", r.kind, r.snapshot, want)
		}
	}
}
