package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skiffmq/skiff/cmd/verify"
)

// shownMax bounds the violations that are shown of each kind.
const shownMax = 10

// Report is what came of a run.
type Report struct {
	// Seed of the run, the Version that the nodes say they are, and the CPUs that all share.
	Seed    uint64 `json:"seed"`
	Version string `json:"version"`
	CPUs    int    `json:"cpus"`
	// Seconds that faults were to go on, and that the whole run took.
	Seconds    float64 `json:"seconds"`
	RanSeconds float64 `json:"ran_seconds"`
	// Kinds of fault that were dealt, those that this machine cannot do, the steps, and how often each was done.
	Kinds   []Kind         `json:"kinds"`
	LeftOut []string       `json:"left_out,omitempty"`
	Steps   int            `json:"steps"`
	Faults  map[string]int `json:"faults"`
	// SlowestSeconds is the longest time from the end of a step's faults until every partition took records again.
	SlowestSeconds float64 `json:"slowest_seconds"`
	// Sent, Acknowledged and Read are records; Consumed is what each consumer was given.
	Sent         uint64 `json:"sent"`
	Acknowledged int    `json:"acknowledged"`
	Read         int    `json:"read"`
	Consumed     []int  `json:"consumed"`
	// TopicOps counts creations and deletions of topics by their outcome, Sightings what nodes said of themselves.
	TopicOps  map[verify.Outcome]int `json:"topic_ops"`
	Sightings int                    `json:"sightings"`
	// MetadataOffset, ControllerEpoch and Digest are what all nodes hold at the end.
	MetadataOffset  int64  `json:"metadata_offset"`
	ControllerEpoch int64  `json:"controller_epoch"`
	Digest          string `json:"digest"`
	// Violations counts them by kind.
	Violations map[verify.Kind]int `json:"violations"`

	began time.Time
	asked string // what the command line named besides, as arguments of make
	shown map[verify.Kind][]verify.Violation

	// mu guards lines.
	mu    sync.Mutex
	lines []string
}

func newReport(o Options) *Report {
	asked := ""
	if len(o.Kinds) > 0 {
		words := make([]string, 0, len(o.Kinds))
		for _, k := range o.Kinds {
			words = append(words, string(k))
		}
		asked = fmt.Sprintf(" ARGS='-kinds %q'", strings.Join(words, ","))
	}
	return &Report{
		asked: asked, Seed: o.Seed, CPUs: runtime.NumCPU(), Seconds: o.For.Seconds(), began: time.Now(),
		TopicOps: map[verify.Outcome]int{}, Violations: map[verify.Kind]int{}, shown: map[verify.Kind][]verify.Violation{},
	}
}

// note returns a log that keeps what it hands on, each line with the time since the beginning.
func (r *Report) note(log func(string, ...any)) func(string, ...any) {
	return func(format string, args ...any) {
		line := fmt.Sprintf("%7.2fs ", time.Since(r.began).Seconds()) + fmt.Sprintf(format, args...)
		log("%s", line)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, line)
	}
}

// found notes violations.
func (r *Report) found(violations ...verify.Violation) {
	for _, v := range violations {
		r.Violations[v.Kind]++
		if len(r.shown[v.Kind]) < shownMax {
			r.shown[v.Kind] = append(r.shown[v.Kind], v)
		}
	}
}

// count notes how much there was.
func (r *Report) count(from *run, acked []verify.Acked, read []verify.Read, sightings int) {
	r.Sent, r.Acknowledged, r.Read, r.Sightings = from.work.sent(), len(acked), len(read), sightings
	for _, t := range from.work.tails {
		r.Consumed = append(r.Consumed, t.Count())
	}
	for _, op := range from.churn.history() {
		if op.Verb != verify.Find {
			r.TopicOps[op.Outcome]++
		}
	}
	from.nemesis.mu.Lock()
	defer from.nemesis.mu.Unlock()
	r.Faults, r.SlowestSeconds = from.nemesis.counts, from.nemesis.slowest.Seconds()
}

func (r *Report) finish() { r.RanSeconds = time.Since(r.began).Seconds() }

// OK tells that nothing was violated.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Summary is the report as one line of JSON.
func (r *Report) Summary() string {
	line, err := json.Marshal(r)
	if err != nil {
		return err.Error() // it holds nothing that has no JSON
	}
	return string(line)
}

// Shown are the violations in words, the first ones of each kind.
func (r *Report) Shown() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(r.shown)) {
		fmt.Fprintf(&b, "%s: %d times\n", kind, r.Violations[kind])
		for _, v := range r.shown[kind] {
			fmt.Fprintf(&b, "  %v\n", v)
		}
	}
	return b.String()
}

// WriteMarkdown writes the report for people: the summary, the violations, and what was done when.
func (r *Report) WriteMarkdown(path string) error {
	verdict := "nothing acknowledged was lost, doubled, swapped or changed; no violation"
	if !r.OK() {
		verdict = "VIOLATIONS"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Torture, seed %d, %.0f s: %s\n\n", r.Seed, r.Seconds, verdict)
	fmt.Fprintf(&b, "`make torture SECONDS=%.0f SEED=%d%s`, %s, skiff %s, %d CPUs.\n\n", r.Seconds, r.Seed, r.asked, r.began.UTC().Format(time.RFC3339), r.Version, r.CPUs)
	fmt.Fprintf(&b, "```json\n%s\n```\n\n", r.Summary())
	if !r.OK() {
		fmt.Fprintf(&b, "```\n%s```\n\n", r.Shown())
	}
	r.mu.Lock()
	fmt.Fprintf(&b, "```\n%s\n```\n", strings.Join(r.lines, "\n"))
	r.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// strict tells that nothing may be left out: the machine is one where everything must run.
func strict() bool { return os.Getenv("SKIFF_CI") == "1" }
