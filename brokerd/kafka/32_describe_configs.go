package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// DescribeConfigs, key 32, versions 0 to 4: the values in force for topics.
//
// Only keys that have an effect in Skiff are listed, each with the source of its value. Null for the keys means all of them.
//
// Left out: the configs of brokers (their answer has no entries, which admin tools show as an empty list), and synonyms.
var describeConfigsAPI = api{
	key:        32,
	advertised: versions(0, 4),
	served:     versions(0, 4),
	handle:     handled((*Server).describeConfigs),
}

// describeConfigs answers from the image.
func (s *Server) describeConfigs(_ context.Context, _ *call, req *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.DescribeConfigsResponse](req)
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, 0, len(req.Resources))
	for _, r := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		s.describeResource(img, r, req.IncludeDocumentation, &out)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// describeResource describes one resource, or says why not.
func (s *Server) describeResource(img *fsm.Image, r kmsg.DescribeConfigsRequestResource, documented bool, out *kmsg.DescribeConfigsResponseResource) {
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
	case kmsg.ConfigResourceTypeBroker:
		return
	default:
		out.ErrorCode = kerr.InvalidRequest.Code
		out.ErrorMessage = kmsg.StringPtr("only topics and brokers have configs")
		return
	}
	if _, ok := img.TopicByName(r.ResourceName); !ok {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return
	}
	for _, v := range topicconfig.All(img, s.config.Static, r.ResourceName) {
		if r.ConfigNames == nil || slices.Contains(r.ConfigNames, v.Key.Name) {
			out.Configs = append(out.Configs, describedConfig(v, documented))
		}
	}
}

// describedConfig translates one value.
func describedConfig(v topicconfig.Value, documented bool) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value = v.Key.Name, kmsg.StringPtr(v.Value)
	c.Source = kmsg.ConfigSource(v.Source)
	c.IsDefault = v.Source == topicconfig.SourceDefault
	c.ConfigType = kmsg.ConfigType(v.Key.Type)
	if documented {
		c.Documentation = kmsg.StringPtr(v.Key.Doc)
	}
	return c
}
