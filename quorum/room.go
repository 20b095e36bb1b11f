package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/transport"
)

// A leader that cannot write any more ends its process, and the next one may have no more room than it. So a leader whose
// disk is nearly full hands over before that, to a voter that has room. If nobody has, it goes on, and takes only what
// makes room: for that every node keeps a file of ballast that it can throw out.
const (
	// roomTick is the pause between two looks at the disk.
	roomTick = time.Second
	// DefaultFreeBytesLow is the free space below which a node should not lead.
	DefaultFreeBytesLow = 64 << 20
	// lowShare bounds that on a small disk: a part of all of it.
	lowShare = 16
	// ballastBytesMax is the size of the ballast: the log of many thousand deletions. It is at most half of what is low.
	ballastBytesMax = 8 << 20
	// ballastFile lies in the node's directory.
	ballastFile = "ballast"
	// roomAskTimeout bounds the question to one voter.
	roomAskTimeout = time.Second
)

// room is what is known of the disk under a node.
type room struct {
	// low: the node should not lead. It ends when twice as much is free as where it began.
	low atomic.Bool
	// scarce: the node leads all the same, because no voter has more.
	scarce atomic.Bool
	// unknown: the last look failed. Owned by watchRoom.
	unknown bool
}

// space is the free and the whole size of the file system that holds dir.
func space(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("ask for the space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil //nolint:gosec,unconvert // types differ between systems
}

// roomLow is how many free bytes are too few on a disk of that size.
func roomLow(configured, total int64) int64 { return min(configured, total/lowShare) }

// isLow tells whether a disk counts as nearly full, given whether it did.
func isLow(was bool, free, low int64) bool { return free < low || was && free < 2*low }

// watchRoom looks at the disk until the member stops.
func (m *member) watchRoom() {
	if m.cfg.FreeBytesLow <= 0 {
		return
	}
	for {
		m.lookAtRoom()
		if !m.rest(roomTick) {
			return
		}
	}
}

func (m *member) lookAtRoom() {
	free, total, err := m.cfg.space(m.cfg.DataDir)
	if err != nil {
		if !m.room.unknown {
			m.logger.Error("the free space is not known", "error", err)
		}
		m.room.unknown = true
		return
	}
	m.room.unknown = false
	low := roomLow(m.cfg.FreeBytesLow, total)
	is := isLow(m.room.low.Load(), free, low)
	if m.room.low.Swap(is) != is {
		m.logger.Warn("the free space under the node's data has changed", "low", is, "free-bytes", free, "low-below", low, "directory", m.cfg.DataDir)
	}
	switch {
	case !is:
		m.room.scarce.Store(false)
		m.keepBallast(min(ballastBytesMax, low/2))
	case m.raft.State() == raft.Leader:
		m.makeRoom()
	default:
		m.room.scarce.Store(false)
	}
}

// makeRoom hands over to a voter that has room, or throws the ballast out.
func (m *member) makeRoom() {
	to, ok := m.roomiest()
	if ok {
		if err := m.transfer(&to); err != nil {
			m.logger.Warn("the disk is nearly full, and leadership was not handed over", "to", to.NodeID, "error", err)
			return
		}
		m.logger.Info("the disk is nearly full: leadership was handed over", "to", to.NodeID)
		return
	}
	if m.room.scarce.Swap(true) {
		return
	}
	m.logger.Error("the disk is nearly full and no voter has more room: this node goes on and takes only what makes room",
		"directory", m.cfg.DataDir, "fix", "free space on the disks of the quorum, or delete topics")
	if err := os.Remove(m.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.logger.Error("the ballast stays", "error", err)
	}
}

// scarcity is why this node refuses what takes room, empty if it does not.
func (m *member) scarcity() string {
	if !m.room.scarce.Load() {
		return ""
	}
	return fmt.Sprintf("the disk of quorum node %d is nearly full, and so are the others: only what makes room is taken; free space, or delete topics", m.self.NodeID)
}

func (m *member) ballast() string { return filepath.Join(m.cfg.DataDir, ballastFile) }

// keepBallast writes the ballast unless it is there. It is worth a try at every look, and no more than that.
func (m *member) keepBallast(size int64) {
	if info, err := os.Stat(m.ballast()); err == nil && info.Size() > 0 {
		return
	}
	if err := writeBallast(m.ballast(), size); err != nil {
		m.logger.Debug("the ballast was not written", "error", err)
	}
}

// writeBallast writes zeros: a hole in a file would be no room.
func writeBallast(path string, size int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	piece := make([]byte, 1<<20)
	for size > 0 {
		n, err := f.Write(piece[:min(size, int64(len(piece)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}

// roomiest is the most caught up of the other voters that have room and serve.
func (m *member) roomiest() (best transport.PeerID, ok bool) {
	var bestIndex uint64
	for _, peer := range m.voters() {
		if peer == m.self {
			continue
		}
		s, err := m.askStatus(peer)
		if err != nil || s.GetDiskLow() || !s.GetReady() {
			continue
		}
		if !ok || s.GetLastLogIndex() > bestIndex {
			best, bestIndex, ok = peer, s.GetLastLogIndex(), true
		}
	}
	return best, ok
}

// askStatus asks a peer for its status, at the first address that answers.
func (m *member) askStatus(peer transport.PeerID) (*quorumv1.StatusResponse, error) {
	err := fmt.Errorf("no address of peer %s is known", peer)
	for _, address := range m.node.book.Lookup(peer) {
		var s *quorumv1.StatusResponse
		if s, err = m.askStatusAt(address); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (m *member) askStatusAt(address string) (*quorumv1.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(m.ctx, roomAskTimeout)
	defer cancel()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()}
	if m.cfg.Dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return m.cfg.Dial(ctx, address) }))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	defer conn.Close()
	return quorumv1.NewQuorumServiceClient(conn).Status(ctx, &quorumv1.StatusRequest{})
}
