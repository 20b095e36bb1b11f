package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/wire"
)

// ApiVersions, key 18, versions 0 to 4: what this broker serves.
//
// The first request of almost every client. A version that we do not know is answered in version 0 with error 35 and the
// whole table, and its body is never looked at (KIP-511): newer versions may have any fields in it, and some do. From version
// 3 on the client names its software, and a name that could not be a metric's label is INVALID_REQUEST, as in Kafka.
//
// Left out: features. We finalise none of Kafka's, so that no client turns on a protocol that is not there.
var apiVersionsAPI = api{
	key:        18,
	advertised: versions(0, 4),
	served:     versions(0, 4),
	handle:     handled((*Server).apiVersions),
}

// softwareName is what KIP-511 allows for ClientSoftwareName and ClientSoftwareVersion.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?$`)

// apiVersions answers with the table.
func (s *Server) apiVersions(_ context.Context, _ *call, req *kmsg.ApiVersionsRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.ApiVersionsResponse](req)
	if req.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	resp.ApiKeys = s.advertised()
	return resp, nil
}

// apiVersionsFallback answers an ApiVersions request of a version that is not served.
func (s *Server) apiVersionsFallback() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse() // version 0
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = s.advertised()
	return resp
}

// isUnknownApiVersions tells whether h asks for ApiVersions in a version that is not served.
func isUnknownApiVersions(h wire.RequestHeader) bool {
	return h.Key == apiVersionsAPI.key && !apiVersionsAPI.served.Contains(h.Version)
}

// advertised returns the table in the form of the answer.
func (s *Server) advertised() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.apis))
	for _, a := range s.apis {
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = a.key, a.advertised.Min, a.advertised.Max
		keys = append(keys, key)
	}
	return keys
}
