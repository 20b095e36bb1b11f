// Package raft stands in for hashicorp/raft.
package raft

// Term is anything to import.
const Term = 1
