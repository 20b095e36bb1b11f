// Package transport carries Raft between quorum nodes, over the one port that they share with gRPC.
//
//	                     +--> gRPC listener        (first bytes "PRI ")
//	port 9093 --> Mux ---+--> Raft handshake       (first byte 0xF5) --> Layer --> raft.NetworkTransport
//	                     +--> one log line, closed (TLS, HTTP, Kafka, anything else)
//
// A Raft connection opens with a Preamble {cluster id, lineage, from, to, last index} and waits for the acceptor's
// Answer. Both sides learn so, before a single Raft message, that they belong to one cluster and one lineage, that
// the acceptor is the node that was meant (an empty Raft node would otherwise grant any vote), and that neither has
// lost what it once acknowledged. docs/formats/raft-transport.md has the bytes.
//
// A node's Raft address is its identity, "<node id>.<directory uuid>", for ever: hashicorp/raft stores the address of
// the candidate as the vote, so it must be as permanent as the id. Where a node is reached is the AddressBook's
// business, asked at each dial.
//
// The package is told neither what the log holds nor who leads. Its goroutines: Mux.Serve accepts; each accepted
// connection has one of its own until it is handed over; hashicorp/raft owns the rest.
package transport
