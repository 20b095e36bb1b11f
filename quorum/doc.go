// Package quorum runs one quorum node: Raft on its disk and its port, the fold of the metadata log, and the active
// controller when the node leads. hashicorp/raft is known here, in transport and in the test harness, nowhere else.
//
// # Life of a node
//
//	first start          init: prepare        init: commit                        every later start
//	directory uuid  -->  plan file       -->  first snapshot, meta, Raft starts   meta checked, Raft starts
//
// An empty node listens and answers who it is, nothing more. Which cluster it belongs to is decided once, by init, and
// stands in the file `meta` from then on; whatever contradicts it stops the process with exit code 78 and both values.
//
// # Goroutines
//
//	transport.Mux.Serve     accepts; one goroutine for each connection until it is handed over
//	gRPC                    its own, one for each call
//	Raft                    main, FSM (calls machine), snapshots (calls imageSnapshot), replication
//	member.decide           runs the active controller's loop: decides, proposes, answers
//	proposer                one hands entries to Raft in order, two wait for each entry in flight
//	member.followLeadership tells the loop that leadership may have changed
//	member.register         keeps the metadata's word about this node true
//	snapshotter.run         takes snapshots by bytes and by age
//	member.watchLeader      stands for election when the leader's process is gone
//	member.watchStore       ends a leader whose disk hangs
//	member.watchRoom        hands over when the disk is nearly full
//
// The image is a pointer that only the FSM goroutine stores, and everybody loads. No lock is held across a wait, a disk
// sync or the network; where one must wait for another's disk (init) there is a slot in a channel instead.
//
// # What ends a process
//
//	exit 78   identity: another cluster, another node's volume, a store that is missing or of another kind, a gap in the log
//	exit 70   a write that failed, a leader whose image is frozen (I3), a log that disagrees with the leader's snapshot
package quorum
