// Package rpc is the gRPC edge of a quorum node: BrokerService, AdminService and MetadataService.
//
// It judges who calls (cluster id and lineage), translates a request into a decision of package controller, has package
// active make it so, and translates the answer back. It decides nothing itself, with one exception that is none: a
// heartbeat that changes nothing is answered from the applied image by the session's own goroutines, so that a broker's
// session never waits behind a decision.
//
// Goroutines: gRPC runs one for each call. A session has a second one that receives, so that heartbeats are noted when
// they arrive whatever the first one does, and at most one that waits for a decision. A follower has a second one that
// sends, so that the first can give up on a follower that does not read.
//
// Every error is a gRPC status with a controller.v1.Error as its detail.
package rpc
