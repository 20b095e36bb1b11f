// Package rpctest is a quorum without Raft, for tests: each node has the real loop, feed and gRPC edge, and an ordered
// log that every node applies stands in for Raft. Connections are in memory and can be refused or made to swallow what
// is sent. It is meant for synctest bubbles and works outside of them, too.
package rpctest
