package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Keys under which hashicorp/raft keeps its stable values.
var (
	keyLastVoteTerm = []byte("LastVoteTerm")
	keyLastVoteCand = []byte("LastVoteCand")
)

// voteKey holds both as one value: the term (8 bytes, big endian) and the candidate.
var voteKey = []byte("skiff-vote")

// errNotFound is the absence of a stable value. hashicorp/raft compares its text.
var errNotFound = errors.New("not found")

// isNotFound tells absence from a fault, in the words of every store.
func isNotFound(err error) bool { return err != nil && err.Error() == errNotFound.Error() }

// vote is whom this node voted for last. hashicorp/raft writes it in two steps, the term first; a crash between them
// would pair the new term with the previous term's candidate, who could then have the vote without the check of its
// log. So the term is held back until the candidate comes, and both are written as one value.
// Owned by Raft's main goroutine, but for term and candidate, which read the store and may be called from any.
type vote struct {
	held     uint64
	holding  bool
	store    func(key, value []byte) error
	retrieve func(key []byte) ([]byte, error)
}

func (v *vote) setTerm(term uint64) {
	v.held, v.holding = term, true
}

func (v *vote) setCandidate(candidate []byte) error {
	if !v.holding {
		return errors.New("write a vote: its candidate came without its term")
	}
	value := append(binary.BigEndian.AppendUint64(nil, v.held), candidate...)
	if err := v.store(voteKey, value); err != nil {
		return err
	}
	v.holding = false
	return nil
}

func (v *vote) term() (uint64, error) {
	term, _, err := v.read()
	return term, err
}

func (v *vote) candidate() ([]byte, error) {
	_, candidate, err := v.read()
	return candidate, err
}

// read gives the vote that is on disk; one that is held back has not been cast.
func (v *vote) read() (term uint64, candidate []byte, err error) {
	value, err := v.retrieve(voteKey)
	if err != nil {
		return 0, nil, err
	}
	if len(value) < 8 {
		return 0, nil, fmt.Errorf("read the vote: %d bytes where at least 8 are expected", len(value))
	}
	return binary.BigEndian.Uint64(value), value[8:], nil
}
