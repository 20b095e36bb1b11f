// Package active makes so what the controller decides should be so: it opens a claim when its node leads, decides
// requests in the order of their arrival on the tip, has each decision committed, and answers.
//
// # The step function
//
// [Core] is a step function: events go in, effects come out. It has no goroutine, lock, clock or I/O; the time is an
// argument of [Core.Step] and chance comes from [Config.Env]. A simulator drives it directly. [Loop] is the thin
// shell around it: one goroutine (Loop.Run) owns the Core, a mailbox brings the events, and one short-lived goroutine
// for each entry in flight waits for its answer.
//
//	         hint: leading                claim applied
//	idle ---------------------> claiming ---------------> open
//	 ^                           |   ^                     |
//	 |        hint: not leading  |   |  anything but       |
//	 +---------------------------+   +---- applied --------+
//
// # What holds
//
//   - A claim is one entry with ControllerClaimed alone. Its answer carries the image of the instant at which it was
//     folded, so it is also the barrier: nothing that was committed before can be missing from the first tip.
//   - Decisions fold into the tip before they are proposed. What does not fold is refused and never proposed.
//   - Nothing is answered before it is committed and applied here (I4). A decision that changed nothing is answered when
//     an entry that was proposed after it is: the next one, or a repeated claim that all who wait share. Heartbeats and
//     the like (Op.Prompt) wait only for the entries that they were decided on.
//   - Anything but "applied" ends the claim: the tip is thrown away and, while the node leads, a new claim is made.
//     The guard in the fold (I2) drops what the ended claim may still have in the log, so at most one claim decides
//     at a time and a deposed one's decisions are never visible (I21).
//   - Whoever waits on an entry of a lost claim is answered when a later claim is seen applied here: from then on the
//     entry has either taken effect or never will. If the image was replaced by a snapshot meanwhile, what became of
//     the entry cannot be told, and the answer says so.
//
// The package knows nothing of Raft: it sees a [Log] that takes entries and answers what the fold made of them.
package active
