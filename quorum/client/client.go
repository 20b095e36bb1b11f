package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/skiffmq/skiff/fsm"
)

// Keys of the gRPC metadata; package rpc has the same.
const (
	clusterIDKey = "skiff-cluster-id"
	lineageKey   = "skiff-lineage"
	// sessionKey is in the header of a session that was accepted.
	sessionKey = "skiff-session"
)

// maxAddresses bounds the addresses that a client knows (I20): those it was given and those it has learned.
const maxAddresses = 64

// Config is what a client starts from.
type Config struct {
	// Controllers are the host:port of some quorum nodes, at least one.
	Controllers []string
	// ClusterID that the caller belongs to; empty if it does not know it yet. Then the first answer sets it.
	ClusterID string
	// Lineage returns that of the caller's metadata, zero if it has none; nil for a caller that keeps no metadata.
	Lineage func() fsm.LineageID
	// Dial connects to an address; nil means TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Logger; nil discards.
	Logger hclog.Logger
}

// Client speaks to the quorum. Its methods may be called from any goroutine.
type Client struct {
	cfg  Config
	pool *pool
	// life ends when the client is closed.
	life context.Context //nolint:containedctx // the client's searches outlive the calls that begin them
	stop context.CancelFunc

	// mu guards the following.
	mu        sync.Mutex
	clusterID string
	// active is who is believed to be the active controller, "" if nobody.
	active string
	// known addresses, those of the configuration first.
	known []string
	// searching is the search in progress, nil if there is none.
	searching *search
}

// New makes a client. It connects when it is used.
func New(cfg Config) (*Client, error) {
	if len(cfg.Controllers) == 0 || len(cfg.Controllers) > maxAddresses {
		return nil, fmt.Errorf("client: %d controllers given, want 1 to %d", len(cfg.Controllers), maxAddresses)
	}
	for _, addr := range cfg.Controllers {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("client: controller %q: %w", addr, err)
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	c := &Client{cfg: cfg, clusterID: cfg.ClusterID, known: slices.Clone(cfg.Controllers)}
	c.life, c.stop = context.WithCancel(context.Background())
	c.pool = newPool(cfg.Dial, c.unary, c.stream)
	return c, nil
}

// Close ends every call, session and follow.
func (c *Client) Close() error {
	c.stop()
	return c.pool.close()
}

// ClusterID returns the cluster's id, "" before anybody has told it.
func (c *Client) ClusterID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clusterID
}

// ActiveController returns who is believed to be the active controller, "" if nobody is.
func (c *Client) ActiveController() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// addresses returns those that are known.
func (c *Client) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.known)
}

// learn adds an address, and tells a search of it. An address beyond the bound takes the place of the oldest learned.
func (c *Client) learn(addr string) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.known, addr) {
		given := len(c.cfg.Controllers)
		if len(c.known) >= maxAddresses {
			if given == maxAddresses {
				return
			}
			c.known = slices.Delete(c.known, given, given+1)
		}
		c.known = append(c.known, addr)
	}
	if c.searching != nil {
		c.searching.hint(addr)
	}
}

// own returns the metadata that every call carries.
func (c *Client) own() []string {
	var pairs []string
	if id := c.ClusterID(); id != "" {
		pairs = append(pairs, clusterIDKey, id)
	}
	if c.cfg.Lineage != nil {
		if l := c.cfg.Lineage(); !l.IsZero() {
			pairs = append(pairs, lineageKey, l.String())
		}
	}
	return pairs
}

// checkHeader compares the answering node's cluster with ours, and takes it over if we had none.
func (c *Client) checkHeader(addr string, header metadata.MD) error {
	values := header.Get(clusterIDKey)
	if len(values) == 0 || values[0] == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clusterID == "" {
		c.clusterID = values[0]
	}
	if c.clusterID != values[0] {
		return otherCluster(addr, c.clusterID, values[0])
	}
	return nil
}

// unary adds who we are to a call and looks at who answered.
func (c *Client) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var header metadata.MD
	err := invoke(metadata.AppendToOutgoingContext(ctx, c.own()...), method, req, reply, conn, append(opts, grpc.Header(&header))...)
	if mismatch := c.checkHeader(conn.CanonicalTarget(), header); mismatch != nil {
		return errors.Join(mismatch, err)
	}
	return err
}

// stream adds who we are to a stream; its opener looks at the header.
func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return open(metadata.AppendToOutgoingContext(ctx, c.own()...), desc, conn, method, opts...)
}
