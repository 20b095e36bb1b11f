package quorum

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Pace of the registration: a look at the image costs nothing, a request that fails is repeated slower.
const (
	registerLook    = time.Second
	registerRetry   = 5 * time.Second
	registerTimeout = 5 * time.Second
)

// registration is what the metadata should say about this node. The active controller records its own with its
// claim; every other node asks for its own, because only it knows its listeners and features.
func (m *member) registration() *metadatav1.ControllerRegistered {
	return &metadatav1.ControllerRegistered{
		NodeId:        m.self.NodeID,
		DirectoryId:   m.self.Directory.Bytes(),
		IncarnationId: m.node.incarnation.Bytes(),
		Listeners:     []*metadatav1.Listener{m.cfg.Advertised.listener(m.node.mux.Addr())},
		Features:      fsm.FeaturesProto(fsm.Supported()),
	}
}

// advertised is host:port of this node as the others reach it.
func (m *member) advertised() string {
	l := m.cfg.Advertised.listener(m.node.mux.Addr())
	return net.JoinHostPort(l.GetHost(), fmt.Sprint(l.GetPort()))
}

// register keeps the metadata's word about this node true, for as long as the member runs.
func (m *member) register() {
	want := m.registration()
	wait := time.NewTimer(registerLook)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-m.ctx.Done():
			return
		}
		pause := registerLook
		if !m.isRegistered(want) {
			if err := m.requestRegistration(want); err != nil {
				m.logger.Debug("the registration was not recorded yet", "error", err)
				pause = registerRetry
			}
		}
		wait.Reset(pause)
	}
}

// isRegistered tells whether nothing is to be asked for: the image says it already, or this node records it itself.
func (m *member) isRegistered(want *metadatav1.ControllerRegistered) bool {
	if m.loop.Active() {
		return true
	}
	c, ok := m.machine.image.Load().Controller(want.GetNodeId())
	return ok && sameRegistration(c, want)
}

func sameRegistration(c *fsm.Controller, want *metadatav1.ControllerRegistered) bool {
	have := c.Record()
	return slices.Equal(have.GetIncarnationId(), want.GetIncarnationId()) && slices.Equal(have.GetDirectoryId(), want.GetDirectoryId())
}

// requestRegistration asks the leader.
func (m *member) requestRegistration(want *metadatav1.ControllerRegistered) error {
	address := m.leaderAddress()
	if address == "" {
		return errNoLeader
	}
	conn, err := m.dialQuorum(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(m.ctx, registerTimeout)
	defer cancel()
	_, err = quorumv1.NewQuorumServiceClient(conn).RegisterController(ctx, &quorumv1.RegisterControllerRequest{Registration: want})
	return err
}

// dialQuorum gives a connection to another quorum node, made when it is first used.
func (m *member) dialQuorum(address string) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if m.cfg.Dial != nil {
		options = append(options, grpc.WithContextDialer(m.cfg.Dial))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}
