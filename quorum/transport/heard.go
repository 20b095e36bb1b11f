package transport

import (
	"bytes"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Heard is a leader and the term in which it spoke to this node last.
type Heard struct {
	// Leader that sent entries, heartbeats or a snapshot; zero if none ever did.
	Leader PeerID
	// Term in which it leads.
	Term uint64
}

// ear remembers who led last. Any goroutine writes and reads it.
type ear struct {
	last atomic.Pointer[heardLeader]
}

// heardLeader keeps the leader's name as it came, so that a heartbeat costs one comparison.
type heardLeader struct {
	Heard
	name []byte
}

// listen takes note of a request that only a leader sends.
func (e *ear) listen(command any) {
	switch cmd := command.(type) {
	case *raft.AppendEntriesRequest:
		e.note(cmd.Term, cmd.ID)
	case *raft.InstallSnapshotRequest:
		e.note(cmd.Term, cmd.ID)
	}
}

func (e *ear) note(term uint64, name []byte) {
	for {
		last := e.last.Load()
		if last != nil && (term < last.Term || term == last.Term && bytes.Equal(name, last.name)) {
			return
		}
		leader, err := ParsePeerID(string(name))
		if err != nil {
			return // Raft judges the request; a name that names nobody is no leader
		}
		if e.last.CompareAndSwap(last, &heardLeader{Heard: Heard{Leader: leader, Term: term}, name: bytes.Clone(name)}) {
			return
		}
	}
}

func (e *ear) heard() Heard {
	if last := e.last.Load(); last != nil {
		return last.Heard
	}
	return Heard{}
}
