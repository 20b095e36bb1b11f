package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRepairMendsWhatCanBe takes every image that breaks an invariant through a snapshot: the plan names the rules that
// it needs, all of them together make it sound, and none of them can be left out.
func TestRepairMendsWhatCanBe(t *testing.T) {
	mended := make(map[RepairRule]int)
	for _, c := range brokenImages() {
		img := *soundImage(t)
		c.breakIt(&img)
		if !writable(&img) {
			continue
		}
		broken, err := throughUnchecked(&img)
		if err != nil || Check(broken) == nil {
			continue // a stream that says so is refused, or says it no longer
		}
		before := Describe(broken)
		plan := PlanRepair(broken)
		if plan.Left != nil {
			t.Errorf("I%d/%s: %v is left", c.invariant, c.what, plan.Left)
			continue
		}
		rules := rulesOf(plan)
		sound, err := Repair(broken, rules...)
		if err != nil {
			t.Errorf("I%d/%s: %v", c.invariant, c.what, err)
			continue
		}
		mustBeSound(t, sound)
		for i, rule := range rules {
			mended[rule]++
			if rest, err := Repair(broken, slices.Delete(slices.Clone(rules), i, i+1)...); err == nil {
				t.Errorf("I%d/%s: %s was offered and is not needed: %s", c.invariant, c.what, rule, Describe(rest))
			}
		}
		if Describe(broken) != before {
			t.Errorf("I%d/%s: the repair changed the image that it was given", c.invariant, c.what)
		}
		if _, err := Rebirth(sound, Birth{ClusterID: sound.ClusterID(), UUID: uuid(9)}); err != nil {
			t.Errorf("I%d/%s: %v", c.invariant, c.what, err)
		}
	}
	for _, text := range repairTexts {
		if mended[text.rule] == 0 {
			t.Errorf("no broken image needs %s", text.rule)
		}
	}
	t.Logf("mended: %v", mended)
}

// writable tells that the image is one that memory can hold: its topics have the partitions that they say.
func writable(img *Image) bool {
	for topic := range img.Topics() {
		if v := checkShape(topic); v != nil && topic.count > 0 {
			return false
		}
	}
	return true
}

func throughUnchecked(img *Image) (*Image, error) {
	var stream bytes.Buffer
	if err := WriteSnapshot(reseal(img), &stream); err != nil {
		return nil, err
	}
	return ReadSnapshotUnchecked(&stream)
}

func rulesOf(plan *RepairPlan) []RepairRule {
	var rules []RepairRule
	for _, s := range plan.Steps {
		rules = append(rules, s.Rule)
	}
	return rules
}

// TestRepairOfASoundImage offers nothing and changes nothing, whatever is asked for.
func TestRepairOfASoundImage(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t)
		randomHistory(w, seed, 60)
		if plan := PlanRepair(w.img); plan.Left != nil || len(plan.Steps) != 0 {
			t.Fatalf("seed %d: %+v", seed, plan)
		}
		var all []RepairRule
		for _, text := range repairTexts {
			all = append(all, text.rule)
		}
		mended, err := Repair(w.img, all...)
		if err != nil || mended.Digest() != w.img.Digest() {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if _, err := Repair(soundImage(t), "everything"); err == nil || !strings.Contains(err.Error(), `no rule "everything"`) {
		t.Fatal(err)
	}
}

// TestRepairPlanSaysWhy counts what each rule changes and bounds its examples.
func TestRepairPlanSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 1)
	w.addBroker(1)
	var replicas [][]int32
	for range maxRepairExamples + 5 {
		replicas = append(replicas, []int32{1})
	}
	w.addTopic("t", uuid(10), replicas...)
	img := *w.img
	breakBroker(1, func(b *Broker) { b.Fenced = true })(&img)
	plan := PlanRepair(reseal(&img))
	if plan.Left != nil || len(plan.Steps) != 1 {
		t.Fatalf("%+v", plan)
	}
	s := plan.Steps[0]
	if s.Rule != RepairForgetISR || s.Count != len(replicas) || len(s.Violations) != maxRepairExamples || s.Rule.Text() == "" {
		t.Fatalf("%s of %d: %v", s.Rule, s.Count, s.Violations)
	}
	if got := s.Violations[0].Error(); got != "I7: partition t-0: leader 1 is fenced" {
		t.Fatal(got)
	}
	if _, err := Repair(reseal(&img)); err == nil {
		t.Fatal("a broken image was repaired by no rule")
	}
	mended, err := Repair(reseal(&img), RepairForgetISR)
	if err != nil || mended.NumAwaiting() != len(replicas) {
		t.Fatal(err, mended)
	}
}

// TestRepairLeavesTheRest says what no rule mends.
func TestRepairLeavesTheRest(t *testing.T) {
	img := *soundImage(t)
	img.quotas = img.quotas.Set(quotaID{}, 1)
	plan := PlanRepair(reseal(&img))
	var v *Violation
	if !errors.As(plan.Left, &v) || len(plan.Steps) != 0 {
		t.Fatalf("%+v", plan)
	}
}

// TestChangesSayWhatDiffers lists the same differences that a delta has, and none between equal images.
func TestChangesSayWhatDiffers(t *testing.T) {
	a := soundImage(t)
	w := &world{tb: t, img: a}
	w.fold(
		parseRecord(t, "change topic=10 n=0 isr=1 leader=1"),
		parseRecord(t, "partition topic=10 n=3 replicas=2"),
		parseRecord(t, "remove-topic id=11"),
		parseRecord(t, "config topic=a key=retention.ms value=2"),
		parseRecord(t, "config key=min.insync.replicas"),
		parseRecord(t, "broker id=6 epoch=12 shutdown=true"),
		quotaRecord("producer_byte_rate", 10, QuotaEntity{User: QuotaPart{Given: true, Name: "ann"}}),
	)
	var lines []string
	for c := range Changes(a, w.img) {
		lines = append(lines, c.String())
	}
	want := []string{
		"cluster AAAAAAAAAAAAAAAAAAAAwQ: next metadata offset: 25 -> 32",
		"broker 6: state: active -> in controlled shutdown",
		"topic a: partitions: 3 -> 4",
		"partition a-0: leader epoch: 0 -> 1", "partition a-0: partition epoch: 1 -> 2", "partition a-0: isr: [2 1] -> [1]",
		"partition a-3: new: leader 2, leader epoch 0, partition epoch 0, replicas [2], isr [2]",
		"topic b.b: gone: id AAAAAAAAAAAAAAAAAAAACw, 1 partitions",
		`config topic a: retention.ms: "1" -> "2"`,
		`config cluster: min.insync.replicas: "2" -> none`,
		"quota user ann: producer_byte_rate: none -> 10",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for range Changes(a, throughSnapshot(t, a)) {
		t.Fatal("an image differs from itself")
	}
	n := 0
	for range Changes(a, w.img) {
		if n++; n == 2 {
			break
		}
	}
}

// TestChangesOfAnyTwoImages never says that something differs that does not, and misses nothing that a delta has.
func TestChangesOfAnyTwoImages(t *testing.T) {
	for seed := range uint64(20) {
		a, b := newWorld(t), newWorld(t)
		randomHistory(a, seed, 40)
		randomHistory(b, seed+100, 40)
		d := Diff(a.img, b.img)
		seen := make(map[string]bool)
		for c := range Changes(a.img, b.img) {
			if c.Old == c.New {
				t.Fatalf("seed %d: %+v", seed, c)
			}
			seen[c.Kind+" "+c.Name] = true
		}
		for _, x := range d.Brokers {
			mustHave(t, seen, fmt.Sprintf("broker %d", x.ID))
		}
		for _, x := range d.Topics {
			if x.Old == nil || x.New == nil {
				mustHave(t, seen, "topic "+x.Name)
				continue
			}
			if x.Old.Name() != x.New.Name() {
				mustHave(t, seen, "topic "+x.Old.Name())
				mustHave(t, seen, "topic "+x.New.Name())
				continue
			}
			for _, p := range x.Partitions {
				mustHave(t, seen, fmt.Sprintf("partition %s-%d", x.Name, p.Partition))
			}
		}
		for _, r := range d.Configs {
			mustHave(t, seen, "config "+r.String())
		}
		for _, id := range d.Controllers {
			mustHave(t, seen, fmt.Sprintf("quorum node %d", id))
		}
	}
}

func mustHave(t *testing.T, seen map[string]bool, what string) {
	t.Helper()
	if !seen[what] {
		t.Errorf("%s changed and is not listed", what)
	}
}
