// Package bootstrap makes a quorum of empty nodes: the tool's side of `skiff quorum init`.
//
// Init asks every voter who it is, prepares one plan on all of them, and commits it on all of them. Nothing is kept
// outside the nodes: whoever repeats the command takes the plan up from them and goes on where the last attempt
// stopped, or learns that there is nothing left to do. A plan that is committed anywhere is never replaced.
package bootstrap
