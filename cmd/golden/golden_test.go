package golden_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/golden"
	"github.com/skiffmq/skiff/cmd/proctest"
)

// record makes the golden answers anew from the cluster at this address.
var record = flag.String("record", "", "bootstrap server of the Kafka cluster whose answers to record")

const (
	goldenFile     = "testdata/kafka-4.1.1.json"
	divergenceFile = "../../docs/divergence.md"
	patience       = 2 * time.Minute
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

func ask(t *testing.T, seeds []string) []golden.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	settle, end, err := golden.Settled(seeds)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	answers, err := golden.Ask(ctx, seeds, settle)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// pretty is an answer as the golden file has it.
func pretty(t *testing.T, tree any) string {
	t.Helper()
	b, err := json.MarshalIndent(tree, "  ", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRecord writes the golden file; record.sh runs it against Kafka.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("records only with -record")
	}
	answers := ask(t, strings.Split(*record, ","))
	if err := os.WriteFile(goldenFile, []byte("  "+pretty(t, answers)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d answers", len(answers))
}

// readGolden reads what Kafka answered, by step.
func readGolden(t *testing.T) map[string]golden.Answer {
	t.Helper()
	b, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var list []golden.Answer
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatalf("%s: %v", goldenFile, err)
	}
	answers := make(map[string]golden.Answer, len(list))
	for _, a := range list {
		answers[a.Name] = a
	}
	return answers
}

// divergences are the steps for which docs/divergence.md says why our answer differs: lines `* "step": reason`.
func divergences(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(divergenceFile)
	if err != nil {
		t.Fatal(err)
	}
	reasons := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\* "([^"]+)": (.+)$`).FindAllStringSubmatch(string(b), -1) {
		reasons[m[1]] = m[2]
	}
	return reasons
}

// compare lists the steps whose answers differ without a reason, and the reasons that explain no difference.
func compare(ours []golden.Answer, kafkas map[string]golden.Answer, reasons map[string]string, text func(any) string) []string {
	var faults []string
	unused := maps.Clone(reasons)
	for _, our := range ours {
		kafka, known := kafkas[our.Name]
		if !known {
			faults = append(faults, fmt.Sprintf("%q was never asked of Kafka: record again", our.Name))
			continue
		}
		same := our.Version == kafka.Version && text(our.Answer) == text(kafka.Answer)
		_, explained := reasons[our.Name]
		delete(unused, our.Name)
		switch {
		case !same && !explained:
			faults = append(faults, fmt.Sprintf("%q: Kafka answered (version %d)\n  %s\nwe (version %d)\n  %s",
				our.Name, kafka.Version, text(kafka.Answer), our.Version, text(our.Answer)))
		case same && explained:
			faults = append(faults, fmt.Sprintf("%q: docs/divergence.md gives a reason for a difference that is none", our.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		faults = append(faults, fmt.Sprintf("%q: docs/divergence.md gives a reason for a step that is none", name))
	}
	return faults
}

// TestAdminAnswersEqualKafkas asks a cluster what Kafka was asked.
func TestAdminAnswersEqualKafkas(t *testing.T) {
	kafkas, reasons := readGolden(t), divergences(t)
	cluster := proctest.Start(t, proctest.Options{Set: []string{"num.partitions=1", "default.replication.factor=1", "min.insync.replicas=1"}})
	ours := ask(t, cluster.BootstrapServers())
	faults := compare(ours, kafkas, reasons, func(tree any) string { return pretty(t, tree) })
	for _, fault := range faults {
		t.Error(fault)
	}
	t.Logf("%d requests, %d of them with a divergence that has a reason, %d faults", len(ours), len(reasons), len(faults))
}

// TestTheComparisonFindsDifferences: a changed code, a missing reason and an idle one are each found.
func TestTheComparisonFindsDifferences(t *testing.T) {
	text := func(tree any) string { return fmt.Sprint(tree) }
	kafkas := map[string]golden.Answer{"a": {Name: "a", Version: 1, Answer: 36}, "b": {Name: "b", Version: 1, Answer: 0}}
	good := []golden.Answer{{Name: "a", Version: 1, Answer: 36}, {Name: "b", Version: 1, Answer: 0}}
	other := []golden.Answer{{Name: "a", Version: 1, Answer: 37}, {Name: "b", Version: 1, Answer: 0}}
	older := []golden.Answer{{Name: "a", Version: 0, Answer: 36}, {Name: "b", Version: 1, Answer: 0}}
	for name, c := range map[string]struct {
		ours    []golden.Answer
		reasons map[string]string
		faults  int
	}{
		"equal":                        {good, nil, 0},
		"another code":                 {other, nil, 1},
		"another code with a reason":   {other, map[string]string{"a": "because"}, 0},
		"another version":              {older, nil, 1},
		"a reason for no difference":   {good, map[string]string{"a": "because"}, 1},
		"a reason for no step":         {good, map[string]string{"c": "because"}, 1},
		"a step that was not recorded": {append(good, golden.Answer{Name: "d"}), nil, 1},
	} {
		if faults := compare(c.ours, kafkas, c.reasons, text); len(faults) != c.faults {
			t.Errorf("%s: %d faults, want %d: %v", name, len(faults), c.faults, faults)
		}
	}
}

// TestStepsAreNamedOnce: a step that is named twice would be compared with another one's answer.
func TestStepsAreNamedOnce(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range golden.Steps() {
		if seen[s.Name] {
			t.Errorf("%q is there twice", s.Name)
		}
		seen[s.Name] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d steps, want at least 100", len(seen))
	}
}
