// Package brokerdtest runs whole clusters, a real quorum and real brokers, on an in-memory network in one process.
// Inside a testing/synctest bubble their timeouts take no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		c := brokerdtest.New(t, 1, 3, nil) // one quorum node, three brokers, all unfenced
//		c.CreateTopic("t", 6, 3, nil)
//		c.Crash(c.Leader("t", 0))
//		...
//	})
//
// What package quorumtest says of bubbles holds here, too.
package brokerdtest
