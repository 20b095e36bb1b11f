// Package fsm says what is so: it folds the facts of the metadata log into an Image.
//
// An Image is a constant. Everything that can be reached from a published *Image is never written again, so a
// reader takes the pointer once and stays with it, and copying an image costs nothing: the maps are persistent
// and share what did not change. The same fold runs on every quorum node, on every broker, on the active
// controller's tip and in every dry run.
//
//	entry --DecodeEnvelope--> Envelope --Apply (guard, fold)--> Result{Applied, image', delta}
//	                                                           Result{Dropped, which check, both values}
//	                                                           Result{Broken, why}
//
// The package is pure. It is told neither the time nor chance, it knows no term and no index of Raft (the
// caller computes the controller epoch), it starts no goroutine, takes no lock and does no I/O but to the
// io.Writer and io.Reader of a snapshot. No input makes it panic: bytes that were committed once are read
// again at every start.
//
// The invariants that this package keeps, by their numbers in ARCHITECTURE.md, are I1 to I3 and I5 to I11.
// Fold keeps them at every step for what a batch touched, Check verifies them for a whole image.
package fsm
