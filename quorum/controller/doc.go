// Package controller decides what the metadata should be.
//
// Every decision is a pure function of an image, an environment and a request. It answers with the records that make
// the decision true and with the reply to give once they are committed. It reads no clock, throws no dice of its own,
// takes no lock, does no I/O and starts no goroutine; the active controller calls it on its one deciding goroutine,
// folds the batches into its tip and proposes them.
//
// # What a decision promises
//
//   - The batches of a decision fold, in order, into the image it was made on, and [fsm.Check] holds after each of them.
//   - A user's request is one batch, or it is refused with POLICY_VIOLATION. Fencing, unregistering and registering a
//     broker may need several batches: partition changes come first and the registration record last, so that each
//     prefix is legal and the decision can be made again after any of them. Unfencing and controlled shutdown begin
//     with the registration record instead, because what follows depends on it, and are repeatable too.
//   - Nothing changed means no record, and no record means no batch.
//   - Refused is set when nothing of the request was decided. A request with several items reports its refusals item
//     by item in the reply, and the good items take effect together.
//
// # Soft state
//
// [Liveness] is what the active controller knows of brokers and does not write down: when they were last heard, which
// metadata offset they had applied, how far a controlled shutdown has come. A decision reads it through [Env] and never
// writes it; what it wants written is in [Decision].Remember, to be called once the batches are in the tip. The state
// is rebuilt after a claim ([Liveness.Reset]), so losing it is never unsafe, only slower.
//
// # Invariants
//
// Decisions keep I7 (a fenced broker leads nothing), I8 (an ISR is a subset of the replicas, the leader is in it),
// I9 (epochs), I10 (a topic id never names two topics), I19 (stale epochs are refused) and I20 (everything has a bound).
// I17 begins here: an election takes a leader from the ISR, unless the topic's configuration or the operator asks for an
// unclean one, and then the partition is marked as recovering.
package controller
