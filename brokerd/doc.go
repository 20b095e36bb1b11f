// Package brokerd assembles one broker: the metadata it follows, the replicas it holds, the Kafka server in front of
// them, and the session that tells the controller about it.
//
// It knows the quorum only through quorum/client. Its goroutines, besides those of the packages it assembles: the
// session (heartbeats up, wanted state down), the reporter of the inventory, the metadata follower, one server for each
// listener.
//
//	open:  meta (who we are) -> metadata log (what we knew) -> listeners bound, answering "not yet"
//	run:   follow the metadata; register; catch up to our own registration; roles, logs; ask to be unfenced
//	lineage: a restored quorum ends every role and our registration; every log stays; register again, report, be elected
//	stop:  ask for a controlled shutdown, wait for it; drain the server; close logs and metadata; leave the clean
//	       marker; say goodbye
//
// No replica is touched before the image holds this process's own registration: its incarnation id is new, so that
// record can only have come from the quorum, and what the image says is then at least as new (I22).
package brokerd
