// Package client is how brokers and tools speak to the quorum.
//
// It finds the active controller among the addresses it was given and those it learns, repeats what was certainly not
// done until the caller's context ends, and says so when it cannot be told whether something was done. It keeps one
// connection for each address.
//
// # Finding the active controller
//
// The client remembers who answered last. When that node is gone or says that it is not active any longer, its hint is
// tried at once; after that one search, shared by everybody who waits, asks all known addresses side by side. The pause
// between two questions to one address grows with the outage: it is a tenth of the time since the search began, at least
// 20 ms and at most 1 s, with jitter. So an active controller is found within a tenth of the outage it ended, and many
// clients do not ask in step.
//
// # Following
//
// [Client.Follow] keeps the caller's metadata up to date from one source at a time, the active controller by preference.
// It leaves a source that is silent, cut off from the quorum's leader, behind the caller, or not the active controller
// while that one can be reached.
package client
