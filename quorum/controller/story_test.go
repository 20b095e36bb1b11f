package controller

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// TestStories runs every script in testdata. Each batch that a command leads to is folded alone and the image checked
// after it, so every prefix of a decision is seen to be legal.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			w := newWorld(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				w.t = t
				return w.run(d)
			})
		})
	}
}

// tester is what stories and models need of a test; rapid's is not a testing.TB.
type tester interface {
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// world is a cluster without a network: an image, a clock, and what the controller knows of its brokers.
type world struct {
	t        tester
	img      *fsm.Image
	env      *Env
	liveness *Liveness
	watch    *Watch
	start    time.Time
	// probing are the probes in flight.
	probing map[int32]Probe
	// incarnations counts the starts of each broker's process; goodbye brokers send no heartbeats.
	incarnations map[int32]byte
	stopped      map[int32]bool
	racks        map[int32]string
	// gone are the ids of topics that there were, by name; rebirths counts the restores.
	gone     map[string]fsm.UUID
	rebirths byte
}

func newWorld(t tester) *world {
	lineage := fsm.UUID{0xaa, 1}
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId:          testClusterID(),
		Lineage:            &metadatav1.LineageID{Number: 1, Uuid: lineage.Bytes()},
		NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatalf("genesis: %v", err)
	}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		t: t, img: img, start: start, liveness: NewLiveness(9 * time.Second), watch: NewWatch(), probing: map[int32]Probe{},
		incarnations: map[int32]byte{}, stopped: map[int32]bool{}, racks: map[int32]string{},
		gone: map[string]fsm.UUID{},
	}
	w.env = &Env{
		Now: start, Rand: rand.New(rand.NewPCG(1, 2)), Limits: DefaultLimits(), Defaults: KafkaDefaults(),
		Cause: &metadatav1.Cause{Principal: "User:story"}, RequestID: fsm.UUID{0xbb, 1}, Liveness: w.liveness,
		Inventories: NewInventories(),
	}
	w.env.Inventories.Reset(start)
	return w
}

func testClusterID() string { return fsm.UUID{0xcc, 1}.String() }

// run executes one command. Its first argument is usually positional, for example "create foo partitions=3 rf=3".
func (w *world) run(d *datadriven.TestData) string {
	commands := map[string]func(*datadriven.TestData) string{
		"set": w.cmdSet, "brokers": w.cmdBrokers, "register": w.cmdRegister, "heartbeat": w.cmdHeartbeat, "tick": w.cmdTick,
		"close": w.cmdClose, "wait": w.cmdWait, "answer": w.cmdAnswer, "fence": w.cmdFence, "unregister": w.cmdUnregister, "failover": w.cmdFailover,
		"create": w.cmdCreate, "delete": w.cmdDelete, "config": w.cmdConfig,
		"alter": w.cmdAlter, "elect": w.cmdElect, "balance": w.cmdBalance, "elect-leaderless": w.cmdElectLeaderless,
		"producer-ids": w.cmdProducerIDs, "register-controller": w.cmdRegisterController,
		"rebirth": w.cmdRebirth, "report": w.cmdReport, "elect-inventories": w.cmdElectInventories, "elect-awaiting": w.cmdElectAwaiting,
		"awaiting": w.cmdAwaiting, "confirm": w.cmdConfirm, "strays": w.cmdStrays, "undelete": w.cmdUndelete,
		"alter-config": w.cmdAlterConfig, "grow": w.cmdGrow, "reassign": w.cmdReassign, "quota": w.cmdQuota, "feature": w.cmdFeature,
		"show": w.cmdShow,
	}
	command, ok := commands[d.Cmd]
	if !ok {
		w.t.Fatalf("unknown command %s", d.Cmd)
	}
	return command(d)
}

// told is a decision without its type: what a story shows of it.
func tell[R any](w *world, d Decision[R], reply func(R) string) string {
	if d.Refused != nil {
		if len(d.Batches) != 0 || d.Remember != nil || d.Keep != nil {
			w.t.Errorf("a refused request has batches")
		}
		return "refused: " + errorText(&controllerv1.Error{Code: d.Refused.Code, Message: d.Refused.Message}) + "\n"
	}
	var b strings.Builder
	if reply != nil {
		b.WriteString(reply(d.Reply))
	}
	for _, batch := range d.Batches {
		fmt.Fprintf(&b, "batch %s: %s\n", batch.GetReason().GetCode(), batch.GetReason().GetText())
		for _, r := range batch.GetRecords() {
			fmt.Fprintf(&b, "  %s\n", w.recordText(r))
		}
		w.fold(batch)
	}
	if d.Remember != nil {
		d.Remember(w.liveness)
	}
	if d.Keep != nil {
		d.Keep(w.env.Inventories)
	}
	return b.String()
}

// fold applies one batch and checks every invariant.
func (w *world) fold(batch *metadatav1.Batch) {
	if batch.GetTimeMs() < w.img.LastBatchTimeMs() {
		w.t.Fatalf("batch time %d is before %d", batch.GetTimeMs(), w.img.LastBatchTimeMs())
	}
	img, _, err := fsm.FoldBatches(w.img, []*metadatav1.Batch{batch}, w.img.ControllerEpoch())
	if err != nil {
		w.t.Fatalf("batch does not fold: %v\n%v", err, batch)
	}
	if err := fsm.Check(img); err != nil {
		w.t.Fatalf("image is broken: %v\n%v", err, batch)
	}
	for t := range w.img.Topics() {
		w.gone[t.Name()] = t.ID()
	}
	w.img = img
}

func errorText(err *controllerv1.Error) string {
	return strings.TrimPrefix(err.GetCode().String(), "ERROR_CODE_") + ": " + err.GetMessage()
}

func (w *world) cmdSet(d *datadriven.TestData) string {
	static := topicconfig.Static{}
	for k, v := range w.env.Defaults.Topics {
		static[k] = v
	}
	for _, arg := range d.CmdArgs {
		value := arg.Vals[0]
		switch arg.Key {
		case "rack":
			id, rack, _ := strings.Cut(value, ":")
			w.racks[toID(w.t, id)] = rack
		case "max-records":
			w.env.Limits.MaxRecordsPerBatch = toInt(w.t, value)
		case "max-bytes":
			w.env.Limits.MaxBatchBytes = toInt(w.t, value)
		case "max-recoveries":
			w.env.Limits.MaxRecoveriesPerRun = toInt(w.t, value)
		case "max-elections":
			w.env.Limits.MaxElectionsPerRun = toInt(w.t, value)
		case "delete.topic.enable":
			w.env.Defaults.TopicDeletion = value == "true"
		case "num.partitions":
			w.env.Defaults.NumPartitions = toID(w.t, value)
		case "default.replication.factor":
			w.env.Defaults.ReplicationFactor = toID(w.t, value)
		default:
			static[arg.Key] = value
		}
	}
	w.env.Defaults.Topics = static
	return ""
}

func toInt(t tester, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%q is no number", text)
	}
	return n
}

func toID(t tester, text string) int32 { return int32(toInt(t, text)) }

func toIDs(t tester, texts []string) []int32 {
	var ids []int32
	for _, text := range texts {
		if text != "" {
			ids = append(ids, toID(t, text))
		}
	}
	return ids
}

// options reads key=value arguments.
type options struct {
	t    tester
	args []datadriven.CmdArg
}

func (o options) has(key string) bool {
	return slices.ContainsFunc(o.args, func(a datadriven.CmdArg) bool { return a.Key == key })
}

func (o options) list(key string) []string {
	for _, a := range o.args {
		if a.Key == key {
			return values(a)
		}
	}
	return nil
}

// values splits "key=1,2" as datadriven splits "key=(1,2)".
func values(a datadriven.CmdArg) []string {
	if len(a.Vals) != 1 {
		return a.Vals
	}
	return strings.Split(a.Vals[0], ",")
}

func (o options) text(key, otherwise string) string {
	if vals := o.list(key); len(vals) > 0 {
		return vals[0]
	}
	return otherwise
}

func (o options) number(key string, otherwise int) int {
	if !o.has(key) {
		return otherwise
	}
	return toInt(o.t, o.text(key, ""))
}

func (w *world) options(d *datadriven.TestData) options { return options{t: w.t, args: d.CmdArgs} }

// partition reads "foo-0".
func (w *world) partition(text string) (string, int32) {
	at := strings.LastIndexByte(text, '-')
	if at < 0 {
		w.t.Fatalf("%q names no partition", text)
	}
	return text[:at], toID(w.t, text[at+1:])
}

func (w *world) topicName(raw []byte) string {
	id, err := fsm.UUIDFromBytes(raw)
	if err != nil {
		return "?"
	}
	if t, ok := w.img.Topic(id); ok {
		return t.Name()
	}
	return "new topic"
}

func directory(broker int32) fsm.UUID { return fsm.UUID{0xd0, 15: byte(broker)} }

func incarnation(broker int32, n byte) fsm.UUID { return fsm.UUID{0xe0, byte(broker), 15: n} }
