// Package verify produces numbered records, reads a topic back and judges whether the cluster kept its word.
//
// A Producer numbers what it sends and remembers what was acknowledged; ReadAll reads every partition from its start to
// its high watermark; Check compares the two. Check is pure: its own tests hand it doctored histories in which one record
// is lost, doubled, swapped or changed, and it must name each. The process-level tests and the verifier command share it.
package verify
