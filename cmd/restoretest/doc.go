// Package restoretest destroys the quorum of a cluster of real processes and restores it from a snapshot.
//
// Its tests are what a restore promises: nothing that was acknowledged is lost, no number is given out twice, a drill does
// not touch production, and every command of the runbook (docs/restore.md) does what the runbook says. -topics says how
// many topics the large test has.
package restoretest
