package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster, key 60, versions 0 to 2: the unfenced brokers and the broker that answers admin requests, in the terms
// of the request's listener.
//
// Version 1 can ask for the controllers instead of the brokers, which only a controller answers in Kafka; here, too, a broker
// says MISMATCHED_ENDPOINT_TYPE. Version 2 can ask for fenced brokers, too (KIP-1073).
var describeClusterAPI = api{
	key:        60,
	advertised: versions(0, 2),
	served:     versions(0, 2),
	handle:     handled((*Server).describeCluster),
}

// Endpoint types of DescribeCluster.
const (
	endpointBrokers     int8 = 1
	endpointControllers int8 = 2
)

// describeCluster answers from the image.
func (s *Server) describeCluster(_ context.Context, c *call, req *kmsg.DescribeClusterRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.DescribeClusterResponse](req)
	if req.Version >= 1 && req.EndpointType != endpointBrokers {
		resp.ErrorCode = kerr.UnsupportedEndpointType.Code
		if req.EndpointType == endpointControllers {
			resp.ErrorCode = kerr.MismatchedEndpointType.Code
		}
		resp.ErrorMessage = kmsg.StringPtr("a broker describes brokers only")
		return resp, nil
	}
	resp.EndpointType = endpointBrokers
	resp.ClusterID = img.ClusterID()
	resp.ControllerID = s.adminBroker(img, c.listener)
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{}
	for b := range img.Brokers() {
		l, ok := b.Listener(c.listener)
		if !ok || b.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		m := kmsg.NewDescribeClusterResponseBroker()
		m.NodeID, m.Host, m.Port, m.Rack, m.IsFenced = b.ID, l.Host, int32(l.Port), rackOf(b), b.Fenced
		resp.Brokers = append(resp.Brokers, m)
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return resp, nil
}
