package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// DescribeConfigs, key 32, versions 0 to 4: the values in force for topics, for this broker, and the cluster's default.
//
// Only keys that have an effect in Skiff are listed, each with the source of its value and, if asked, with every place
// where it has one (synonyms). Null for the keys means all of them. Of a broker these are the keys that can be changed
// while it runs, and only that broker itself answers; of the cluster's default those that are set.
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
	d := &configDescriber{
		img: img, static: s.config.Static, self: s.config.NodeID,
		documented: req.IncludeDocumentation && req.Version >= 3, synonyms: req.IncludeSynonyms && req.Version >= 1,
	}
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, 0, len(req.Resources))
	for _, r := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		out.ErrorMessage = kmsg.StringPtr("") // as Kafka's
		d.describe(r, &out)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// configDescriber describes configs for one request.
type configDescriber struct {
	img    *fsm.Image
	static topicconfig.Static
	self   int32
	// documented and synonyms are asked for.
	documented, synonyms bool
}

// describe describes one resource, or says why not.
func (d *configDescriber) describe(r kmsg.DescribeConfigsRequestResource, out *kmsg.DescribeConfigsResponseResource) {
	fail := func(e *kerr.Error, message string) {
		out.ErrorCode, out.ErrorMessage = e.Code, messageOf(message)
	}
	var lists [][]topicconfig.Value
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := fsm.CheckTopicName(r.ResourceName); err != nil {
			fail(kerr.InvalidTopicException, err.Error())
			return
		}
		if _, ok := d.img.TopicByName(r.ResourceName); !ok {
			fail(kerr.UnknownTopicOrPartition, fmt.Sprintf("topic %s does not exist", r.ResourceName))
			return
		}
		for _, k := range topicconfig.Keys() {
			lists = append(lists, topicconfig.Chain(d.img, d.static, r.ResourceName, k))
		}
	case kmsg.ConfigResourceTypeBroker:
		var err string
		if lists, err = d.broker(r.ResourceName); err != "" {
			fail(kerr.InvalidRequest, err)
			return
		}
	default:
		fail(kerr.InvalidRequest, "only topics and brokers have configs")
		return
	}
	for _, list := range lists {
		if r.ConfigNames == nil || slices.Contains(r.ConfigNames, list[0].Key.Name) {
			out.Configs = append(out.Configs, d.config(list))
		}
	}
}

// broker lists what brokers can change while they run: of this broker all, of the cluster's default what is set.
func (d *configDescriber) broker(name string) (lists [][]topicconfig.Value, err string) {
	if name == "" {
		for _, list := range topicconfig.Server(d.img, nil) {
			if list[0].Source == topicconfig.SourceClusterDefault {
				lists = append(lists, list[:1])
			}
		}
		return lists, ""
	}
	if name != strconv.Itoa(int(d.self)) {
		return nil, fmt.Sprintf("broker %d describes itself and the cluster's default, not broker %.20q", d.self, name)
	}
	return topicconfig.Server(d.img, d.static.On(d.self)), ""
}

// config translates one key: the value in force, and if asked every value that it has.
func (d *configDescriber) config(list []topicconfig.Value) kmsg.DescribeConfigsResponseResourceConfig {
	v := list[0]
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value = v.Key.Name, kmsg.StringPtr(v.Value)
	c.Source = kmsg.ConfigSource(v.Source)
	c.IsDefault = v.Source == topicconfig.SourceDefault
	c.ConfigType = kmsg.ConfigType(v.Key.Type)
	c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if d.documented {
		c.Documentation = kmsg.StringPtr(v.Key.Doc)
	}
	if !d.synonyms {
		return c
	}
	for _, v := range list {
		synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		synonym.Name, synonym.Value, synonym.Source = v.Key.ServerName, kmsg.StringPtr(v.Value), kmsg.ConfigSource(v.Source)
		if v.Source == topicconfig.SourceTopic {
			synonym.Name = v.Key.Name
		}
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym)
	}
	return c
}
