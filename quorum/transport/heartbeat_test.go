package transport

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestHeartbeatIsAnsweredForARaftThatIsHeldUp: by its disk, as a follower of that term, and in no other case.
func TestHeartbeatIsAnsweredForARaftThatIsHeldUp(t *testing.T) {
	book := &AddressBook{Overrides: map[int32]string{}}
	leader, busy := newEndpoint(t, 1, book), newEndpoint(t, 2, book)
	book.Overrides[2] = busy.listener.Addr().String()
	beat := func(term uint64) (raft.AppendEntriesResponse, error) {
		var resp raft.AppendEntriesResponse
		req := &raft.AppendEntriesRequest{RPCHeader: header(leader), Term: term}
		err := leader.network.AppendEntries(busy.self.ServerID(), busy.self.ServerAddress(), req, &resp)
		return resp, err
	}
	asked := make(chan struct{}, 1)
	answers := func(term uint64, held bool) {
		busy.network.WhenHeldUp(func() (uint64, bool) {
			select {
			case asked <- struct{}{}:
			default:
			}
			return term, held
		})
	}

	answers(5, true) // nobody consumes: Raft takes nothing
	if resp, err := beat(5); err != nil || !resp.Success || resp.Term != 5 {
		t.Errorf("%+v, %v", resp, err)
	}
	for name, c := range map[string]struct {
		term, beats uint64
		held        bool
	}{
		"of a later term":        {5, 6, true},
		"of an older term":       {5, 4, true},
		"Raft is only busy":      {5, 5, false},
		"and in no term of ours": {0, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			answers(c.term, c.held)
			answered := make(chan raft.AppendEntriesResponse, 1)
			go func() {
				resp, _ := beat(c.beats)
				answered <- resp
			}()
			for len(asked) > 0 {
				<-asked
			}
			<-asked // by now it could have been answered
			<-asked
			rpc := <-busy.network.Consumer()
			rpc.Respond(&raft.AppendEntriesResponse{Term: 77}, nil)
			if resp := <-answered; resp.Term != 77 {
				t.Errorf("answered with %+v, not by Raft", resp)
			}
		})
	}
}
