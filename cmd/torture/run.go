package torture

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/cmd/netns"
	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/verify"
)

// Stalled: the cluster did not go on though a majority of everything was there, or a node did not come back.
const Stalled verify.Kind = "stalled"

// Sizes of a run.
const (
	topicName       = "tortured"
	partitions      = 6
	replicas        = 3
	perSecond       = 3000
	diskLeast       = 256 << 20
	recordBytesMost = 256 // of one record on one disk, with room to spare
	historyPatience = 30 * time.Second
)

// Options of a run.
type Options struct {
	// Seed of schedule and workload.
	Seed uint64
	// For is how long faults go on.
	For time.Duration
	// AckedLeast is how many records must have been acknowledged before the run ends.
	AckedLeast int
	// Kinds are the faults to deal; none for all that this machine can do.
	Kinds []Kind
	// StepsMax ends the faults early; 0 does not.
	StepsMax int
	// Binary and Set are for the cluster, see proctest.Options.
	Binary string
	Set    []string
}

// run is one run and everybody in it.
type run struct {
	t       testing.TB
	options Options
	report  *Report
	system  *system
	work    *workload
	churn   *churn
	watch   *observer
	nemesis *nemesis
}

// Run starts a cluster, tortures it and judges it. It fails the test only if it cannot do that; the violations are in the report.
func Run(t testing.TB, o Options) *Report {
	t.Helper()
	r := &run{t: t, options: o, report: newReport(o)}
	r.prepare()
	t.Cleanup(r.close)
	r.torture()
	r.report.finish()
	return r.report
}

// prepare starts the cluster and everybody who works on it.
func (r *run) prepare() {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	dir := proctest.NewDir(r.t)
	kinds, disks := r.possible(dir)
	r.report.Kinds = kinds
	wired := slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(networkKinds, k) })
	cluster := proctest.Start(r.t, proctest.Options{Dir: dir, Binary: r.options.Binary, Set: r.options.Set, Namespaces: wired})
	must(createTopic(r.t.Context(), cluster.BootstrapServers()))
	var err error
	r.system, err = newSystem(r.t.Context(), cluster, topicName)
	must(err)
	r.work, err = newWorkload(cluster.BootstrapServers(), topicName, partitions, perSecond)
	must(err)
	r.churn, err = newChurn(cluster.Controllers())
	must(err)
	r.watch = newObserver(r.system)
	r.nemesis = newNemesis(r.system, r.work, disks, r.report.note(r.t.Logf))
}

// possible are the kinds of fault that this machine can do, and the disks for those that need some. What is left out is said. strace
// and ip can be installed, so where everything must run their absence is an error, for root at least; the right to mount a disk cannot.
func (r *run) possible(dir string) (kinds []Kind, disks *disks) {
	r.t.Helper()
	kinds = r.options.Kinds
	if len(kinds) == 0 {
		kinds = everyKind
	}
	for _, k := range kinds {
		if !slices.Contains(everyKind, k) {
			r.t.Fatalf("there is no kind of fault %q; there are %q", k, everyKind)
		}
	}
	if slices.Contains(kinds, KillAtSyscall) {
		if err := straceWorks(); err != nil && strict() {
			r.t.Fatalf("no fault of the kind %q: %v", KillAtSyscall, err)
		} else if err != nil {
			kinds = r.without(kinds, KillAtSyscall, err)
		}
	}
	for _, kind := range networkKinds {
		if !slices.Contains(kinds, kind) {
			continue
		}
		if err := netns.Possible(); err != nil && strict() && os.Geteuid() == 0 {
			r.t.Fatalf("no fault of the kind %q: %v", kind, err)
		} else if err != nil {
			kinds = r.without(kinds, kind, err)
		}
	}
	if slices.Contains(kinds, FillDisk) {
		var err error
		size := diskLeast + int64(r.options.For.Seconds())*perSecond*recordBytesMost
		if disks, err = mountDisks(r.t, dir, []string{"c1", "c2", "c3", "b1", "b2", "b3"}, size); err != nil {
			kinds = r.without(kinds, FillDisk, err)
		}
	}
	return kinds, disks
}

// without leaves a kind out and says so.
func (r *run) without(kinds []Kind, kind Kind, err error) []Kind {
	r.t.Helper()
	r.t.Logf("no fault of the kind %q: %v", kind, err)
	r.report.LeftOut = append(r.report.LeftOut, fmt.Sprintf("%s: %v", kind, err))
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k == kind })
}

func (r *run) close() {
	r.work.close()
	r.system.close()
	if err := r.churn.close(); err != nil {
		r.t.Error(err)
	}
}

// torture lets everybody work while faults go on, and judges what is left.
func (r *run) torture() {
	ctx := r.t.Context()
	working, endWork := context.WithCancel(ctx)
	defer endWork()
	sending, endSending := context.WithCancel(working)
	defer endSending()
	asking, endAsking := context.WithCancel(working)
	defer endAsking()
	r.work.start(sending, working)
	r.churn.start(asking, r.options.Seed)
	r.watch.start(asking)

	err := r.work.awaitProgress(ctx)
	if err == nil {
		r.report.Steps, err = r.nemesis.run(ctx, NewSchedule(r.options.Seed, partitions, r.report.Kinds...), time.Now().Add(r.options.For), r.options.StepsMax)
	}
	if err == nil {
		err = r.work.awaitAcked(ctx, r.options.AckedLeast)
	}
	endSending()
	endAsking()
	if err != nil {
		endWork() // what has stalled may never answer
		r.report.found(verify.Violation{Kind: Stalled, Detail: err.Error()})
		r.stalled(r.nemesis.restore(ctx))
	}
	stop := time.AfterFunc(patience, endWork)
	defer stop.Stop()
	r.churn.finish()
	if told := r.work.drained(); told != nil && err == nil {
		r.report.found(verify.Violation{Kind: verify.Told, Detail: fmt.Sprintf("a producer: %v", told)})
	}
	r.judge(ctx)
}

// judge reads everything back and hands it to the checks. The read goes on as long as it can, so that a run which has stalled still
// says whether anything is lost.
func (r *run) judge(ctx context.Context) {
	r.stalled(r.system.awaitFullISR(ctx))
	acked := r.work.acked()
	reading, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	read, err := verify.ReadAll(reading, r.system.cluster.BootstrapServers(), topicName)
	r.stalled(err)
	if err == nil {
		r.report.found(verify.Check(acked, read)...)
		r.judgeTails(ctx, read)
	}
	r.stalled(await(ctx, "all nodes agree on the metadata", func(context.Context) error {
		agreed, err := r.system.cluster.Agreement()
		r.report.Version, r.report.Digest = agreed.Version, agreed.Digest
		r.report.MetadataOffset, r.report.ControllerEpoch = agreed.MetadataOffset, agreed.ControllerEpoch
		return err
	}))
	if err := r.churn.findAll(ctx, r.system); err != nil {
		r.stalled(err)
	} else {
		r.report.found(verify.CheckTopics(r.churn.history(), historyPatience)...)
	}
	watched, sightings := r.watch.violations()
	r.report.found(watched...)
	r.report.count(r, acked, read, sightings)
}

// stalled notes an error that means that something did not come to pass.
func (r *run) stalled(err error) {
	if err != nil {
		r.report.found(verify.Violation{Kind: Stalled, Detail: err.Error()})
	}
}

// judgeTails checks what each consumer was given.
func (r *run) judgeTails(ctx context.Context, read []verify.Read) {
	r.stalled(r.work.awaitRead(ctx, len(read)))
	for i, t := range r.work.tails {
		who := fmt.Sprintf("consumer %d", i)
		r.report.found(verify.CheckSeen(who, t.Seen(), read)...)
		for _, err := range t.Told() {
			r.report.found(verify.Violation{Kind: verify.Told, Detail: fmt.Sprintf("%s: %v", who, err)})
		}
	}
}

// createTopic creates the topic of the run.
func createTopic(ctx context.Context, seeds []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return err
	}
	defer cl.Close()
	minISR := "2"
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, replicas, map[string]*string{"min.insync.replicas": &minISR}, topicName)
	return err
}
