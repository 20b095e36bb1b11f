package main

// leaveOutEquation takes single equations out of the guard that every quorum node applies to every entry (I2).
var leaveOutEquation = Edit{
	File: "fsm/apply.go",
	Old:  "\t\tif eq.got == nil || *eq.got != eq.want {\n",
	New:  "\t\tif (eq.got == nil || *eq.got != eq.want) && !mutated(eq.check) {\n",
}

// bothEpochs are the two equations on the controller epoch. An entry of an honest controller that fails one of them fails
// the other too, so that only without both there is no check of the epoch.
var bothEpochs = []string{"controller_epoch", "controller_epoch of the claim"}

// guard is the guard's equations, seen by the tests of the step function, with up to four entries in flight.
var guard = Suite{
	Name: "guard", Package: "./quorum/active",
	Edits: []Edit{leaveOutEquation},
	Mutants: []Mutant{
		{Name: "no check of the epoch", Switches: bothEpochs, Test: "TestLateProposalBeforeTheNewClaimIsDroppedByItsEpoch"},
		{Name: "no check of the claim", Switches: []string{"claim_offset"}, Test: "TestClaimOffsetAloneFencesAnOlderClaimOfTheSameTerm"},
		{Name: "no check of the first offset", Switches: []string{"first_metadata_offset"}, Test: "TestFirstOffsetAloneFencesWhatWasDecidedOnALostEntry"},
	},
}

// realRaft is the same on nodes with the real Raft.
var realRaft = Suite{
	Name: "raft", Package: "./quorum",
	Edits: []Edit{leaveOutEquation},
	Mutants: []Mutant{
		{Name: "no check of the epoch", Switches: bothEpochs, Test: "TestLeadershipLostAndWonAtOnce"},
		{Name: "no check of the claim", Switches: []string{"claim_offset"}, Test: "TestSecondEntryOfALostClaimIsDropped"},
		{Name: "no check of the first offset", Switches: []string{"first_metadata_offset"}, Test: "TestEntryAfterALostOneIsDropped"},
	},
}

// node is what stands between Raft and the disk, and between a dead leader and a timeout.
var node = Suite{
	Name: "node", Package: "./quorum",
	Edits: []Edit{
		{
			File: "quorum/vote.go",
			Old:  "\tv.held, v.holding = term, true\n",
			New: "\tv.held, v.holding = term, true\n\tif mutated(\"vote\") {\n\t\t_, candidate, _ := v.read()\n" +
				"\t\t_ = v.store(voteKey, append(binary.BigEndian.AppendUint64(nil, term), candidate...))\n\t}\n",
		},
		{
			File: "quorum/takeover.go",
			Old:  "(s.unchanged(o) || s.refused(o))",
			New:  "(s.unchanged(o) || s.refused(o) && !mutated(\"refusal\"))",
		},
	},
	Mutants: []Mutant{
		{Name: "a vote in two writes", Switches: []string{"vote"}, Test: "TestVoteIsAtomic"},
		{Name: "a refused vote is no reason to suspect", Switches: []string{"refusal"}, Test: "TestSecondTakesOverWhenTheFirstIsBehindAndQuicker"},
	},
}
