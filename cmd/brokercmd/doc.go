// Package brokercmd is the command brokerd: one broker as a process. The binaries brokerd and skiff contain it.
//
// SIGTERM and SIGINT hand the broker's leaderships over, drain it and end the process with 0; a second signal ends it
// at once. A broker that must not go on ends the process with 70 (start it again) or 78 (do not).
package brokercmd
