// Package quorumtest runs quorums of real nodes on an in-memory network: real hashicorp/raft, real stores in a
// temporary directory, real gRPC. Inside a testing/synctest bubble their timeouts take no time.
//
//	synctest.Test(t, func(t *testing.T) {
//	    c := quorumtest.New(t, 3)      // empty nodes, initialised, with an open claim
//	    c.Net.Isolate(c.Active().Name) // the others elect
//	    ...
//	})
//
// In a bubble the clock moves only when every goroutine waits for it. A goroutine that waits for a mutex does not count
// as waiting, so a mutex that is held across a wait stops the clock without a report: nothing here or in the nodes may
// do that. Disk syncs take real time and no virtual time. The order of goroutines differs between runs; only the pure
// packages replay exactly.
package quorumtest
