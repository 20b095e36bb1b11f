package main

import "time"

// simulated are lines of defence of the whole product, seen by the simulator on three hundred seeds: about a minute of
// one core.
var simulated = Suite{
	Name: "sim", Package: "./cmd/sim", Args: []string{"-sim.seeds=300"}, Timeout: 10 * time.Minute,
	Edits:   append(append(leaderEdits, controllerEdits...), activeEdits...),
	Mutants: seedsNotice(simulatedGuard, simulatedLeaders, simulatedController, simulatedActive),
}

// simulatedQuick are those of them that the first seeds find.
var simulatedQuick = Suite{
	Name: "sim-quick", Package: "./cmd/sim", Args: []string{"-sim.seeds=6"}, Timeout: 2 * time.Minute,
	Edits: append(append(leaderEdits, controllerEdits...), activeEdits...),
	Mutants: seedsNotice([]string{
		"high watermark without enough in sync", "another claim does not end ours", "unfenced before it has caught up", "an expired broker may lead",
	}),
}

// seedsNotice makes a mutant of each switch.
func seedsNotice(lists ...[]string) []Mutant {
	var all []Mutant
	for _, list := range lists {
		for _, name := range list {
			m := Mutant{Name: name, Switches: []string{name}, Test: "TestSeedsHold"}
			if together[name] != nil {
				m.Switches = together[name]
			}
			if name == "a herd is no herd" {
				m.Test = "TestAHerdIsLeftToItsSessions"
			}
			all = append(all, m)
		}
	}
	return all
}

// together are defences of which each alone is enough.
var together = map[string][]string{
	"controller_epoch": bothEpochs,
	"a joiner may be another incarnation than the leader saw": {"joiner of another incarnation", "joiner of another incarnation at the controller"},
}

var simulatedGuard = []string{"claim_offset", "first_metadata_offset", "controller_epoch"}

const (
	roleFile = "brokerd/replica/role.go"
	partFile = "brokerd/replica/partition.go"
	readFile = "brokerd/replica/read.go"
)

// leaderEdits are about a leader and its followers.
var leaderEdits = []Edit{
	leaveOutEquation,
	unless(roleFile, "if %s {", "p.brokerEpoch > f.brokerEpoch", "fetch of an earlier incarnation"),
	{
		File: roleFile,
		Old:  "if p.end < l.high || p.end < l.epochStart || !l.eligible(id, v) {",
		New: "if p.end < l.high && !mutated(\"joiner below the high watermark\") ||\n" +
			"\t\tp.end < l.epochStart && !mutated(\"joiner below the start of the leader epoch\") || !l.eligible(id, v) {",
	},
	{
		File: roleFile,
		Old:  "return active && (seen == noEpoch || seen == registered)",
		New:  "return active && (seen == noEpoch || seen == registered || mutated(\"joiner of another incarnation\"))",
	},
	{
		File: "brokerd/replica/isr.go",
		Old:  "if s.phase == isrPendingExpand {",
		New: "if s.phase == isrPendingExpand && !mutated(\"a joiner does not count before it has joined\") ||\n" +
			"\t\ts.phase == isrPendingShrink && mutated(\"a leaver does not count until it has left\") {",
	},
	unless("brokerd/replica/watermark.go", "if %s {", "l.underMinISR(v)", "high watermark without enough in sync"),
	unless(partFile, "if p.leader == nil || %s {", "leaderEpoch != p.leaderEpoch || partitionEpoch < p.partitionEpoch", "an old answer to a wish"),
	unless(partFile, "return %s", "r.LeaderEpoch < p.leaderEpoch || r.PartitionEpoch < p.partitionEpoch", "old metadata makes a role"),
	unless(readFile, "if %s {", "epoch < f.LastFetchedEpoch || end < f.Offset", "logs that part are not seen"),
	{File: readFile, Old: "return nil, p.leader.high, nil", New: "if mutated(\"consumers read to the end\") {\n\t\t\treturn nil, end, nil\n\t\t}\n\t\treturn nil, p.leader.high, nil"},
}

var simulatedLeaders = []string{
	"fetch of an earlier incarnation", "joiner below the high watermark", "joiner below the start of the leader epoch",
	"a joiner does not count before it has joined", "a leaver does not count until it has left", "high watermark without enough in sync",
	"an old answer to a wish", "old metadata makes a role",
	"logs that part are not seen", "consumers read to the end",
}

const proposalFile = "quorum/controller/isr.go"

// controllerEdits are about the controller's judgement.
var controllerEdits = []Edit{
	{
		File: proposalFile,
		Old:  "*controllerv1.Error {\n\tswitch {\n\tcase item.GetLeaderEpoch() > was.LeaderEpoch:",
		New: "*controllerv1.Error {\n\tif mutated(\"epochs of a proposal\") {\n\t\twas.LeaderEpoch, was.PartitionEpoch = item.GetLeaderEpoch(), item.GetPartitionEpoch()\n\t}\n" +
			"\tswitch {\n\tcase item.GetLeaderEpoch() > was.LeaderEpoch:",
	},
	unless(proposalFile, "case %s:", "item.GetPartitionEpoch() < was.PartitionEpoch", "partition epoch of a proposal"),
	unless(proposalFile, "case %s:", "b.Fenced", "a fenced broker may join"),
	unless(proposalFile, "case m.GetBrokerEpoch() != -1 && %s:", "m.GetBrokerEpoch() != b.Epoch", "joiner of another incarnation at the controller"),
	{
		File: "quorum/controller/elect.go",
		Old:  "return func(id int32) bool { return !slices.Contains(gone, id) && now(id) }",
		New:  "return func(id int32) bool { return (!slices.Contains(gone, id) || mutated(\"an expired broker may lead\")) && now(id) }",
	},
	{File: "quorum/controller/elect.go", Old: "return ok && b.Active()", New: "return ok && (b.Active() || mutated(\"a fenced broker may lead\"))"},
	either("quorum/controller/heartbeat.go", "return %s", "req.GetMetadataOffset() >= b.Epoch", "unfenced before it has caught up"),
	{
		File: "quorum/controller/liveness.go",
		Old:  "brokerEpoch: b.Epoch, last: now, granted: true,",
		New:  "brokerEpoch: b.Epoch, last: map[bool]time.Time{false: now}[mutated(\"a new claim grants nothing\")], granted: true,",
	},
	{
		File: "quorum/controller/sessions.go",
		Old:  "ids := env.Liveness.Expired(img, env.Now)\n",
		New:  "ids := env.Liveness.Expired(img, env.Now)\n\tif mutated(\"sessions never end\") {\n\t\tids = nil\n\t}\n",
	},
	{
		File: "quorum/controller/watch.go",
		Old:  "known && result == ProbeRefused",
		New:  "known && (result == ProbeRefused || result == ProbeTimedOut && mutated(\"a host that says nothing is a dead broker\"))",
	},
	either("quorum/controller/watch.go", "if %s {", "len(w.closings) <= w.herdLimit(img)", "a herd is no herd"),
}

var simulatedController = []string{
	"epochs of a proposal", "partition epoch of a proposal", "a fenced broker may join", "a joiner may be another incarnation than the leader saw",
	"an expired broker may lead", "a fenced broker may lead", "unfenced before it has caught up", "a new claim grants nothing",
	"sessions never end", "a host that says nothing is a dead broker", "a herd is no herd",
}

const claimFile = "quorum/active/claim.go"

// activeEdits are about claims, and the edge before them.
var activeEdits = []Edit{
	unless(claimFile, "case %s:\n\t\tc.endClaim(now, another)", "c.phase == Open && o.ClaimOffset > c.tip.claimOffset", "another claim does not end ours"),
	{
		File: claimFile,
		Old:  "c.endClaim(now, \"the image was restored from a snapshot\")\n",
		New:  "if !mutated(\"a restored image does not end the claim\") {\n\t\tc.endClaim(now, \"the image was restored from a snapshot\")\n\t}\n",
	},
	{
		File: claimFile,
		Old:  "c.lose(f, \"the image was replaced by a snapshot\")",
		New:  "if mutated(\"a restored image says that nothing was done\") {\n\t\t\tc.resolve(f, false)\n\t\t\tcontinue\n\t\t}\n\t\tc.lose(f, \"the image was replaced by a snapshot\")",
	},
	{
		File: claimFile,
		Old:  "\tc.orphans = append(c.orphans, f)\n}",
		New:  "\tc.orphans = append(c.orphans, f)\n\tif mutated(\"what a lost claim proposed was not done\") {\n\t\tc.resolve(f, false)\n\t}\n}",
	},
	{
		File: claimFile,
		Old:  "a.renews != nil && claimOffset == a.renews.image.NextOffset()",
		New:  "a.renews != nil && (claimOffset == a.renews.image.NextOffset() || mutated(\"a renewal goes on whatever came between\"))",
	},
	{File: "quorum/active/decide.go", Old: "case op.own || op.prompt:", New: "case op.own || op.prompt || mutated(\"a refusal needs no entry\"):"},
	{
		File: "quorum/active/tip.go",
		Old:  "\tif len(t.staged) > 0 {\n\t\tt.ride(d)",
		New:  "\tif len(t.staged) > 0 || len(t.flights) > 0 && mutated(\"a refusal waits for the entry in flight\") {\n\t\tt.ride(d)",
	},
	{
		File: "quorum/active/decide.go",
		Old:  "case a.Result.Outcome == fsm.Dropped:\n\t\treturn false, true\n",
		New:  "case a.Result.Outcome == fsm.Dropped:\n\t\treturn mutated(\"a dropped entry was done\"), true\n",
	},
	{
		File: "quorum/active/step.go",
		Old:  "\tfor _, done := range c.tip.land(i + 1) {",
		New:  "\tif mutated(\"one answer is enough for all in flight\") {\n\t\ti = len(c.tip.flights) - 1\n\t}\n\tfor _, done := range c.tip.land(i + 1) {",
	},
	unless("quorum/rpc/desk.go", "case %s:", "s.leaving && !next.there", "a goodbye behind a heartbeat is lost"),
}

var simulatedActive = []string{
	"another claim does not end ours", "a restored image does not end the claim", "a restored image says that nothing was done",
	"what a lost claim proposed was not done", "a renewal goes on whatever came between", "a refusal needs no entry", "a refusal waits for the entry in flight",
	"a dropped entry was done", "one answer is enough for all in flight", "a goodbye behind a heartbeat is lost",
}
