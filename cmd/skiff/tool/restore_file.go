package tool

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/bootstrap"
)

// A restore holds two images at once, that of the file and the one that it becomes. Of a large one what the collector may
// leave lying counts for more than the time that it takes.
const (
	largeSnapshotBytes = 32 << 20
	largeSnapshotGC    = 20 // percent
)

// load reads the snapshot and validates all of it: format, checksums, order, counts, digest, every invariant. One that
// breaks an invariant is mended only by rules that were named.
func (r *restoring) load(path string) (*fsm.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, config.Failed("name a file that skiff snapshot save has written; nothing was touched", "%v", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > largeSnapshotBytes {
		debug.SetGCPercent(largeSnapshotGC)
	}
	img, err := fsm.ReadSnapshotUnchecked(io.TeeReader(bufio.NewReaderSize(f, 1<<20), newProgress(r.stderr, "validated")))
	if err != nil {
		return nil, badSnapshot(path, err)
	}
	return r.mend(path, img)
}

// mend returns the image if every invariant holds, or after the rules that were named have made it so.
func (r *restoring) mend(path string, img *fsm.Image) (*fsm.Image, error) {
	broken := fsm.Check(img)
	if broken == nil {
		return img, nil
	}
	plan := fsm.PlanRepair(img)
	if len(r.repairs) == 0 {
		return nil, r.offer(path, broken, plan)
	}
	rules := make([]fsm.RepairRule, len(r.repairs))
	for i, name := range r.repairs {
		rules[i] = fsm.RepairRule(name)
		if rules[i].Text() == "" {
			return nil, config.Usage("without --repair the command lists the rules that the snapshot needs", "there is no repair rule %q", name)
		}
	}
	mended, err := fsm.Repair(img, rules...)
	if err != nil {
		r.list(plan)
		return nil, config.Failed("name every rule that is listed", "%s: %v; nothing was touched", path, err)
	}
	for _, s := range plan.Steps {
		r.say(fmt.Sprintf("repaired with %s: %d objects: %s", s.Rule, s.Count, s.Rule.Text()))
	}
	return mended, nil
}

// offer lists what would make the snapshot sound, and refuses it as it is.
func (r *restoring) offer(path string, broken error, plan *fsm.RepairPlan) error {
	r.list(plan)
	cause := fmt.Sprintf("%s breaks an invariant: %v; nothing was touched", path, broken)
	if plan.Left != nil {
		return config.Failed("take another file of the archive", "%s; no rule mends %v", cause, plan.Left)
	}
	flags := ""
	for _, s := range plan.Steps {
		flags += " --repair " + string(s.Rule)
	}
	return config.Failed("take another file of the archive, or, if what the rules lose is acceptable, repeat the command with"+flags, "%s", cause)
}

// list tells which rules the snapshot needs, and examples of why.
func (r *restoring) list(plan *fsm.RepairPlan) {
	for _, s := range plan.Steps {
		r.say(fmt.Sprintf("rule %s would change %d objects: %s", s.Rule, s.Count, s.Rule.Text()))
		for _, v := range s.Violations {
			r.say("  " + v.Error())
		}
	}
}

// testimony reads what the witnesses show.
func (r *restoring) testimony() ([]bootstrap.Witness, error) {
	var list []bootstrap.Witness
	for _, path := range r.witnesses {
		img, err := witnessImage(path)
		if err != nil {
			return nil, config.Failed("leave the witness out, or name another one; nothing was touched", "witness %s: %v", path, err)
		}
		w := bootstrap.Witness{
			Name: path, ClusterID: img.ClusterID(), Lineage: img.Lineage().ID, NextOffset: img.NextOffset(),
			Epoch: max(img.ControllerEpoch(), img.EpochBase()),
		}
		r.say(fmt.Sprintf("witness %s: %s, controller epoch %d", path, position(w.Lineage, w.NextOffset-1), w.Epoch))
		list = append(list, w)
	}
	return list, nil
}

// witnessImage reads the newest metadata that a snapshot file or a data directory has.
func witnessImage(path string) (*fsm.Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		from, err := readDirectory(path)
		if err != nil {
			return nil, err
		}
		return from.image, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return fsm.ReadSnapshot(bufio.NewReaderSize(f, 1<<20))
}
