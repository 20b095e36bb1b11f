package torture_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/torture"
)

var (
	seconds = flag.Int("seconds", 0, "how long faults go on; 0 means 60 where everything must run (SKIFF_CI=1), else 20")
	seed    = flag.Uint64("seed", 0, "seed of schedule and workload; 0 draws one")
	kinds   = flag.String("kinds", "", "kinds of fault, separated by commas, for example \"kill at syscall\"; empty for all that this machine can do")
	out     = flag.String("out", "", "file for the report in Markdown")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(proctest.Main(m))
}

// duration is how long faults go on.
func duration() time.Duration {
	switch {
	case *seconds > 0:
		return time.Duration(*seconds) * time.Second
	case os.Getenv("SKIFF_CI") == "1":
		return time.Minute
	default:
		return 20 * time.Second
	}
}

// asked are the kinds of fault that the command line wants.
func asked() []torture.Kind {
	if *kinds == "" {
		return nil
	}
	var list []torture.Kind
	for kind := range strings.SplitSeq(*kinds, ",") {
		list = append(list, torture.Kind(strings.TrimSpace(kind)))
	}
	return list
}

// TestNothingAcknowledgedIsLostUnderTorture is what `make verify` and `make torture` run.
func TestNothingAcknowledgedIsLostUnderTorture(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("seed %d, %v of faults; again: make torture SEED=%d SECONDS=%.0f", *seed, duration(), *seed, duration().Seconds())
	report := torture.Run(t, torture.Options{Seed: *seed, For: duration(), AckedLeast: 20_000, Kinds: asked()})
	t.Logf("summary: %s", report.Summary())
	if *out != "" {
		if err := report.WriteMarkdown(*out); err != nil {
			t.Error(err)
		}
	}
	if !report.OK() {
		t.Errorf("seed %d:\n%s", *seed, report.Shown())
	}
}

// TestAPlantedEarlyAcknowledgementIsFound runs a build whose leaders answer acks=all before anybody else has the records (I13), and
// leaves leaders alone before they die. Records are lost, and the run must say so.
//
// Sessions are long, so that the paused followers stay in the ISR on the slowest machine: without them the leader that dies would
// stay the only one, come back with what it has, and nothing would be lost. Its own restart makes the controller elect another.
func TestAPlantedEarlyAcknowledgementIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds skiff anew and runs a cluster")
	}
	report := torture.Run(t, torture.Options{
		Seed: 1, For: time.Minute, StepsMax: 3, Kinds: []torture.Kind{torture.Strand},
		Binary: proctest.BinaryWithTag(t, "plantedfault"), Set: []string{"broker.session.timeout.ms=30000"},
	})
	t.Logf("summary: %s", report.Summary())
	if report.Violations["lost"] == 0 {
		t.Errorf("a leader that acknowledges too early lost nothing: %s", report.Shown())
	}
}
