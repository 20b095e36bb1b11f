package rpc

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/feed"
)

// Bounds of the edge (I20).
const (
	// MaxRequestBytes bounds a message that is received: a registration with the inventory of many thousand partitions
	// fits.
	MaxRequestBytes = 8 << 20
	// MaxResponseBytes bounds a message that is sent.
	MaxResponseBytes = 16 << 20
	// maxStreams bounds the calls at a time on one connection.
	maxStreams = 1024
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
	// handshakeTimeout bounds the HTTP/2 handshake of a connection.
	handshakeTimeout = 3 * time.Second
	// keepaliveAfter is how long a connection may be silent before it is pinged, keepaliveTimeout how long the answer
	// may take: a peer that is cut off is noticed by then.
	keepaliveAfter   = 5 * time.Second
	keepaliveTimeout = 5 * time.Second
	// keepaliveMin is the shortest pause between the pings of a client.
	keepaliveMin = time.Second
	// defaultTimeout bounds a request whose caller names no deadline.
	defaultTimeout = 30 * time.Second
)

// NodeView is what the edge needs to know of the node besides its image.
type NodeView interface {
	// LeaderContactAge is the time since the node last heard from the Raft leader: 0 on the leader itself, negative if
	// it never did.
	LeaderContactAge() time.Duration
	// ActiveController is the host:port of the active controller, "" if it is not known.
	ActiveController() string
	// Fault tells why the image is frozen or alarmed, "" if it is sound.
	Fault() string
}

// Deps are the parts of the node that the edge stands on.
type Deps struct {
	Loop *active.Loop
	Feed *feed.Feed
	// Image returns the applied image, nil before the node has one.
	Image func() *fsm.Image
	Node  NodeView
	// Scarcity tells why nothing is taken that needs room on the disk, "" if it is; nil if it always is.
	Scarcity func() string
	// Logger; nil discards.
	Logger hclog.Logger
}

// RegisterServices adds the three services to a server that was made with ServerOptions.
func RegisterServices(s *grpc.Server, d Deps) {
	if d.Logger == nil {
		d.Logger = hclog.NewNullLogger()
	}
	controllerv1.RegisterBrokerServiceServer(s, &brokerService{
		Deps: d, desk: newFrontDesk(),
		reports: make(chan struct{}, maxReports),
	})
	controllerv1.RegisterAdminServiceServer(s, &adminService{Deps: d})
	controllerv1.RegisterMetadataServiceServer(s, &metadataService{Deps: d, slots: make(chan struct{}, maxFollowers)})
}

// ServerOptions are the bounds of the edge and its judgement of who calls. They suit every service of a quorum node:
// where image returns nil, because the node is not initialised, nobody is judged.
func ServerOptions(image func() *fsm.Image) []grpc.ServerOption {
	id := identity{image: image}
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxRequestBytes),
		grpc.MaxSendMsgSize(MaxResponseBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveAfter, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMin, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(id.unary),
		grpc.StreamInterceptor(id.stream),
	}
}

// admit says whether requests for the active controller are served here now.
func (d Deps) admit() error {
	if fault := d.Node.Fault(); fault != "" {
		return d.refuse(controllerv1.ErrorCode_ERROR_CODE_FROZEN, "this node serves nobody: %s", fault)
	}
	// A loop that is about to open its claim queues requests itself, so only the image is asked here.
	if d.Image() == nil {
		return d.refuse(controllerv1.ErrorCode_ERROR_CODE_UNFORMATTED, "this node has not been initialised")
	}
	return nil
}

// withTimeout gives a request its deadline: the caller's own, the one it names, or the default.
func withTimeout(ctx context.Context, millis int64) (context.Context, context.CancelFunc) {
	timeout := defaultTimeout
	if millis > 0 {
		timeout = min(time.Duration(min(millis, active.MaxOpTime.Milliseconds()))*time.Millisecond, active.MaxOpTime)
	}
	return context.WithTimeout(ctx, timeout)
}
