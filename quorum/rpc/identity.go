package rpc

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Keys of the gRPC metadata. A caller may leave both out; every answer of an initialised node has both in its header.
const (
	// ClusterIDKey carries the cluster id.
	ClusterIDKey = "skiff-cluster-id"
	// LineageKey carries the lineage as fsm.LineageID writes itself: number/uuid.
	LineageKey = "skiff-lineage"
	// SessionKey is in the header of a session that is open; a refused one has it not.
	SessionKey = "skiff-session"
)

// identity judges who calls (I19).
type identity struct {
	image func() *fsm.Image
}

// judge compares what the caller says it belongs to with what this node does. Following is how a caller learns of
// another lineage, so there the lineage is judged by the service itself; and a node's own status may be asked by anyone.
func (i identity) judge(ctx context.Context, method string) (metadata.MD, error) {
	img := i.image()
	if img == nil {
		return nil, nil
	}
	own := metadata.Pairs(ClusterIDKey, img.ClusterID(), LineageKey, img.Lineage().ID.String())
	said, _ := metadata.FromIncomingContext(ctx)
	if id := first(said, ClusterIDKey); id != "" && id != img.ClusterID() {
		return own, statusOf(&controllerv1.Error{
			Code:    controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID,
			Message: fmt.Sprintf("the caller belongs to cluster %q, this node to cluster %q", id, img.ClusterID()),
		})
	}
	lineage := first(said, LineageKey)
	if lineage != "" && lineage != img.Lineage().ID.String() && judgesLineage(method) {
		return own, statusOf(&controllerv1.Error{
			Code:    controllerv1.ErrorCode_ERROR_CODE_LINEAGE_BEHIND,
			Message: fmt.Sprintf("the caller's metadata is of lineage %s, this node's of lineage %s", lineage, img.Lineage().ID),
		})
	}
	return own, nil
}

func judgesLineage(method string) bool {
	return strings.HasPrefix(method, "/"+controllerv1.BrokerService_ServiceDesc.ServiceName+"/") ||
		strings.HasPrefix(method, "/"+controllerv1.AdminService_ServiceDesc.ServiceName+"/")
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (i identity) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	own, err := i.judge(ctx, info.FullMethod)
	if own != nil {
		if err := grpc.SetHeader(ctx, own); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (i identity) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	own, err := i.judge(stream.Context(), info.FullMethod)
	if own != nil {
		if err := stream.SetHeader(own); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return handle(srv, stream)
}
