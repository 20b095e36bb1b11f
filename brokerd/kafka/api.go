package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/wire"
)

// api is one row of the table of APIs: what is served under a key. Each API has a file that is named after its key.
type api struct {
	// key as Kafka numbers it.
	key int16
	// advertised is what ApiVersions tells clients. It is wider than served at the lower end where clients look for a
	// number that nobody sends any more, and narrower at the upper end where only brokers speak the newer versions.
	advertised wire.VersionRange
	// served are the versions that are decoded; others end the connection.
	served wire.VersionRange
	// carriesRecords allows frames as large as records need; others are small.
	carriesRecords bool
	// opens says that connections begin with this API, so that its first request may be as large as any later one.
	opens bool
	// handle answers a request; the request has the type that kmsg gives the key.
	handle handler
}

// servedAPI is an api of a running server, with what is counted of it.
type servedAPI struct {
	*api
	counters *apiCounters
}

// handler answers one request. A nil response without an error is the answer to a request that has none; an error closes
// the connection. ctx ends when the peer is gone or the server stops.
type handler func(ctx context.Context, s *Server, c *call, req kmsg.Request) (kmsg.Response, error)

// call is what a handler may need to know of the request beside its body.
type call struct {
	// header of the request.
	header wire.RequestHeader
	// listener is the name of the listener that the request came in on; answers name addresses in its terms.
	listener string
	// peer is host:port of the client.
	peer string
}

// allAPIs is the table. Its order is that of the keys, and it is what ApiVersions is made from.
func allAPIs() []api {
	return []api{
		produceAPI,
		fetchAPI,
		listOffsetsAPI,
		metadataAPI,
		findCoordinatorAPI,
		apiVersionsAPI,
		createTopicsAPI,
		deleteTopicsAPI,
		initProducerIDAPI,
		offsetForLeaderEpochAPI,
		describeConfigsAPI,
		alterConfigsAPI,
		describeLogDirsAPI,
		createPartitionsAPI,
		electLeadersAPI,
		incrementalAlterConfigsAPI,
		alterReassignmentsAPI,
		listReassignmentsAPI,
		describeClientQuotasAPI,
		alterClientQuotasAPI,
		describeQuorumAPI,
		updateFeaturesAPI,
		describeClusterAPI,
		unregisterBrokerAPI,
		describeTopicPartitionsAPI,
	}
}

// handled makes a handler of a method of Server for one request type.
func handled[Q kmsg.Request](f func(*Server, context.Context, *call, Q) (kmsg.Response, error)) handler {
	return func(ctx context.Context, s *Server, c *call, req kmsg.Request) (kmsg.Response, error) {
		typed, ok := req.(Q)
		if !ok {
			return nil, fmt.Errorf("handler of %T was given %T", typed, req)
		}
		return f(s, ctx, c, typed)
	}
}

// versions returns the range from low to high.
func versions(low, high int16) wire.VersionRange {
	return wire.VersionRange{Min: low, Max: high}
}

// answer returns the response to req at its version, with Kafka's defaults in its fields.
func answer[P kmsg.Response](req kmsg.Request) P {
	return req.ResponseKind().(P)
}
