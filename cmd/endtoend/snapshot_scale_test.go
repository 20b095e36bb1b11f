package endtoend

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Bounds of a command that works on a snapshot of scaleTopics topics.
const (
	scaleTopics     = 100_000
	scalePartitions = 10
	scaleTime       = 30 * time.Second
	scaleBytes      = 1_000_000_000
)

// TestLargeSnapshotsAreQuickAndSmall saves, verifies, restores and looks at a snapshot of a million partitions, each in less than
// 30 s and 1 GB, with progress on stderr. It takes a minute and is run with SKIFF_TEST_SCALE=1; its figures are in docs/performance.md.
func TestLargeSnapshotsAreQuickAndSmall(t *testing.T) {
	switch scale := os.Getenv("SKIFF_TEST_SCALE"); scale {
	case "":
		t.Skip("SKIFF_TEST_SCALE is not set")
	case "1":
	default: // the process below
		writeLarge(t, scale)
		return
	}
	dir := proctest.NewDir(t)
	given, live := filepath.Join(dir, "given.snapshot"), filepath.Join(dir, "live.snapshot")
	// A process counts the memory of the one that started it, up to that moment, for its own: so another one makes the file.
	maker := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	maker.Env = append(os.Environ(), "SKIFF_TEST_SCALE="+given)
	out, err := maker.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	node := startQuorumd(t, filepath.Join(dir, "c1"))
	measure(t, node, "snapshot", "verify", given)
	measure(t, node, "snapshot", "restore", given, "--voters", "101@"+node.address, "--replace")
	node.awaitReady()
	measure(t, node, "snapshot", "save", live, "--from", node.address)
	measure(t, node, "snapshot", "verify", live)
	measure(t, node, "snapshot", "inspect", live)
	measure(t, node, "snapshot", "top", live)
	measure(t, node, "snapshot", "diff", live, live)
}

// record wraps one for a batch.
func scaleBatch(records ...*metadatav1.Record) []*metadatav1.Batch {
	return []*metadatav1.Batch{{
		TimeMs: 1, RequestId: make([]byte, 16), Cause: &metadatav1.Cause{Principal: "test"}, Reason: &metadatav1.Reason{Code: "test"}, Records: records,
	}}
}

// writeLarge writes a snapshot of three brokers and many topics.
func writeLarge(t *testing.T, path string) {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{9}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{1}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	fold := func(records ...*metadatav1.Record) {
		if img, _, err = fsm.FoldBatches(img, scaleBatch(records...), 1); err != nil {
			t.Fatal(err)
		}
	}
	unfenced := false
	for id := int32(1); id <= 3; id++ {
		epoch, incarnation := img.NextOffset(), fsm.UUID{2, byte(id)}
		fold(&metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
			BrokerId: id, BrokerEpoch: epoch, IncarnationId: incarnation.Bytes(), Fenced: true, Directories: [][]byte{incarnation.Bytes()},
			Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "broker" + strconv.Itoa(int(id)), Port: 9092}},
		}}})
		fold(&metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
			BrokerId: id, BrokerEpoch: epoch, Fenced: &unfenced,
		}}})
	}
	for n := range scaleTopics {
		fold(largeTopic(n)...)
	}
	var stream bytes.Buffer
	if err := fsm.WriteSnapshot(img, &stream); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, stream.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d topics x %d partitions: %d bytes", scaleTopics, scalePartitions, stream.Len())
}

func largeTopic(n int) []*metadatav1.Record {
	id := fsm.UUID{3, byte(n), byte(n >> 8), byte(n >> 16), 0x40, 0x80}
	records := []*metadatav1.Record{{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: fmt.Sprintf("topic-%06d", n), TopicId: id.Bytes()}}}}
	for p := range int32(scalePartitions) {
		first := (int32(n) + p) % 3
		replicas := []int32{first + 1, (first+1)%3 + 1, (first+2)%3 + 1}
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
			TopicId: id.Bytes(), PartitionId: p, Replicas: replicas, Isr: replicas, Leader: replicas[0],
		}}})
	}
	return records
}

// quorumd is one quorum node as a process of its own.
type quorumd struct {
	t              *testing.T
	pid            int
	address, admin string
}

// startQuorumd starts an empty node and waits until it listens.
func startQuorumd(t *testing.T, dir string) *quorumd {
	t.Helper()
	cmd := exec.Command(proctest.Binary(t), "quorumd", "--node-id", "101", "--data", dir, "--listeners", "CONTROLLER://127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	lines, heard := bufio.NewScanner(stderr), ""
	for lines.Scan() {
		heard += lines.Text() + "\n"
		var said struct {
			Message string `json:"@message"`
			Address string `json:"address"`
			Admin   string `json:"admin"`
		}
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Message == "quorumd runs" {
			go func() {
				for lines.Scan() { // so that it never waits for a reader
				}
			}()
			return &quorumd{t: t, pid: cmd.Process.Pid, address: said.Address, admin: said.Admin}
		}
	}
	t.Fatalf("quorumd ended: %v\n%s", lines.Err(), heard)
	return nil
}

func (q *quorumd) awaitReady() {
	q.t.Helper()
	proctest.Eventually(q.t, patience, "the quorum serves", func() error {
		out, err := exec.Command(proctest.Binary(q.t), "quorum", "status", "--controllers", q.address).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// resident is the greatest memory that the node ever had, in bytes.
func (q *quorumd) resident() int64 {
	q.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", q.pid))
	if err != nil {
		q.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		q.t.Fatal(err)
	}
	return kib << 10
}

// measure runs the tool and judges its time, its memory and, if it takes long, that it says how far it is.
func measure(t *testing.T, node *quorumd, args ...string) {
	t.Helper()
	cmd := exec.Command(proctest.Binary(t), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", args[:2], err, stdout.String(), stderr.String())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("the system does not say what a process used")
	}
	resident := usage.Maxrss << 10
	lines := strings.Count(stderr.String(), "\n")
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%-8s %6.1f s (%4.1f s of CPU), %4d MB resident, %2d lines of progress; the node has had at most %4d MB",
		args[1], took.Seconds(), cpu.Seconds(), resident/1e6, lines, node.resident()/1e6)
	if took > scaleTime || resident > scaleBytes {
		t.Errorf("%s took %s and %d bytes", args[1], took, resident)
	}
	if took > 3*time.Second && lines == 0 {
		t.Errorf("%s said nothing for %s", args[1], took)
	}
}
