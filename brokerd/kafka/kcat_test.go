package kafka

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// kcat runs kcat against a broker.
func kcat(t *testing.T, address, stdin string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		if os.Getenv("SKIFF_CI") != "" {
			t.Fatal("kcat is not installed")
		}
		t.Skip("kcat is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"-b", address}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "does not support") {
		t.Fatalf("kcat %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// TestKcatCompresses: librdkafka before 2.11 compresses only if it finds the versions it looks for in the table; otherwise it
// says so, sends plain records, and nothing fails.
func TestKcatCompresses(t *testing.T) {
	codecs := map[string]recordbatch.Codec{
		"none": recordbatch.CodecNone, "gzip": recordbatch.CodecGzip, "snappy": recordbatch.CodecSnappy, "lz4": recordbatch.CodecLZ4, "zstd": recordbatch.CodecZstd,
	}
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, "%s%d\n", strings.Repeat("v", 50), i)
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			ts, address := singleBroker(t, nil)
			made := ts.createHere(t, &controllerv1.CreatableTopic{Name: "made", NumPartitions: 1})
			kcat(t, address, lines.String(), "-P", "-t", "made", "-z", name, "-X", "acks=all", "-X", "linger.ms=200")
			if got := kcat(t, address, "", "-C", "-t", "made", "-o", "beginning", "-e", "-q"); got != lines.String() {
				t.Fatalf("read %d bytes of %d", len(got), lines.Len())
			}
			id, err := fsm.UUIDFromBytes(made.GetTopicId())
			if err != nil {
				t.Fatal(err)
			}
			batch := ts.replicas.log(fsm.PartitionID{Topic: id}).batches[0]
			if h, err := recordbatch.Parse(batch); err != nil || h.Codec() != codec {
				t.Fatalf("stored with codec %d: %v", h.Codec(), err)
			}
		})
	}
}

// TestKcatListsAndQueries: metadata and offsets.
func TestKcatListsAndQueries(t *testing.T) {
	ts, address := singleBroker(t, func(c *Config) { c.AutoCreateTopics = true })
	ts.createHere(t, &controllerv1.CreatableTopic{Name: "made", NumPartitions: 2})
	if out := kcat(t, address, "", "-L"); !strings.Contains(out, "broker 1 at "+address) || !strings.Contains(out, `topic "made" with 2 partitions`) {
		t.Fatal(out)
	}
	kcat(t, address, "a\nb\n", "-P", "-t", "auto", "-X", "enable.idempotence=true")
	if out := kcat(t, address, "", "-Q", "-t", "auto:0:-1"); !strings.Contains(out, "offset 2") {
		t.Fatal(out)
	}
}
