package endtoend

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/cmd/proctest"
)

var kcat = client{name: "kcat", produce: produceKcat, consume: consumeKcat}

// requireKcat skips where kcat is not installed, except where a skip would hide that nothing was shown.
func requireKcat(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err == nil {
		return
	}
	if os.Getenv("SKIFF_CI") != "" {
		t.Fatal("kcat is not installed, and SKIFF_CI asks for it")
	}
	t.Skip("kcat is not installed; the other clients run without it")
}

func runKcat(ctx context.Context, t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "kcat", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("kcat %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	if strings.Contains(stderr.String(), "not compressing") {
		t.Fatalf("kcat does not compress: %s", stderr.String())
	}
	return stdout.String()
}

func produceKcat(ctx context.Context, t *testing.T, seeds []string, topic, compression string) {
	var lines strings.Builder
	for n := range keyedMessages {
		m := messageAt(n)
		fmt.Fprintf(&lines, "%s:%s\n", m.key, m.value)
	}
	runKcat(ctx, t, lines.String(), "-P", "-b", strings.Join(seeds, ","), "-t", topic, "-K:", "-z", compression, "-X", "acks=all")
}

func consumeKcat(ctx context.Context, t *testing.T, seeds []string, topic string, _ int) []found {
	out := runKcat(ctx, t, "", "-C", "-b", strings.Join(seeds, ","), "-t", topic, "-o", "beginning", "-e", "-q", "-f", `%p %o %k %s\n`)
	var all []found
	for line := range strings.Lines(out) {
		var f found
		if _, err := fmt.Sscanf(line, "%d %d %s %s", &f.partition, &f.offset, &f.key, &f.value); err != nil {
			t.Fatalf("kcat printed %q: %v", line, err)
		}
		all = append(all, f)
	}
	return all
}

func TestKcatListsThreeBrokers(t *testing.T) {
	requireKcat(t)
	cluster := proctest.Start(t, proctest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := runKcat(ctx, t, "", "-L", "-b", cluster.BootstrapServers()[0])
	brokers := regexp.MustCompile(`(?m)^  broker ([123]) at (127\.0\.0\.1:\d+)`).FindAllStringSubmatch(out, -1)
	if len(brokers) != 3 {
		t.Fatalf("kcat -L shows %d brokers, want 3:\n%s", len(brokers), out)
	}
	for i, b := range brokers {
		if b[2] != cluster.BootstrapServers()[i] {
			t.Errorf("broker %s is offered at %s, want %s", b[1], b[2], cluster.BootstrapServers()[i])
		}
	}
}
