// Package quorumcmd is the command quorumd: one quorum node as a process. The binaries quorumd and skiff contain it.
//
// SIGTERM and SIGINT hand leadership to a peer, if there is one, and end the process with 0. A node that must not go on
// ends it with 70 (start it again) or 78 (do not).
package quorumcmd
