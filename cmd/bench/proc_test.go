package bench

import (
	"os"
	"testing"
	"time"
)

func TestParseStatCountsBehindTheCommandsLastBracket(t *testing.T) {
	line := "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 100 1000000 300 18446744073709551615"
	got, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Usage{CPU: 3 * time.Second, ResidentBytes: 300 * int64(os.Getpagesize())}); got != want {
		t.Fatalf("parseStat = %+v, want %+v", got, want)
	}
}

func TestParseStatRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, line := range []string{"", "42 nonsense", "42 (x) S 1 2", "42 (a) S 1 42 42 0 -1 4194560 100 0 0 0 x 50 0 0 20 0 9 0 100 1000000 300 1"} {
		if got, err := parseStat(line); err == nil {
			t.Errorf("parseStat(%q) = %+v, want an error", line, got)
		}
	}
}

func TestReadUsageOfThisProcess(t *testing.T) {
	usage, err := ReadUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if usage.ResidentBytes < 1<<20 {
		t.Fatalf("resident %d bytes; this test alone needs more than a MiB", usage.ResidentBytes)
	}
}
