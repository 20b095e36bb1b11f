package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
)

// DescribeClientQuotas, key 48, versions 0 and 1: the quotas of the entities that match (KIP-546), from this broker's
// image.
var describeClientQuotasAPI = api{
	key:        48,
	advertised: versions(0, 1),
	served:     versions(0, 1),
	handle:     handled((*Server).describeClientQuotas),
}

// Match types on the wire.
const (
	matchExact     = kmsg.QuotasMatchType(0)
	matchDefault   = kmsg.QuotasMatchType(1)
	matchSpecified = kmsg.QuotasMatchType(2)
)

// describeClientQuotas answers from the image.
func (s *Server) describeClientQuotas(_ context.Context, _ *call, req *kmsg.DescribeClientQuotasRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.DescribeClientQuotasResponse](req)
	filter, refused, message := quotaFilterOf(req)
	if refused != nil {
		resp.ErrorCode, resp.ErrorMessage = refused.Code, messageOf(message)
		return resp, nil
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	resp.ErrorMessage = kmsg.StringPtr("") // as Kafka's
	var last fsm.QuotaEntity
	for q := range img.Quotas() { // by entity
		if !filter.matches(q.Entity) {
			continue
		}
		if len(resp.Entries) == 0 || q.Entity != last {
			resp.Entries, last = append(resp.Entries, describedEntity(q.Entity)), q.Entity
		}
		v := kmsg.NewDescribeClientQuotasResponseEntryValue()
		v.Key, v.Value = q.Key, q.Value
		entry := &resp.Entries[len(resp.Entries)-1]
		entry.Values = append(entry.Values, v)
	}
	return resp, nil
}

func describedEntity(e fsm.QuotaEntity) kmsg.DescribeClientQuotasResponseEntry {
	entry := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, part := range e.Proto() {
		m := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		m.Type, m.Name = part.GetType(), part.Name
		entry.Entity = append(entry.Entity, m)
	}
	return entry
}

// quotaFilter says which entities are asked for, by type.
type quotaFilter struct {
	components map[string]kmsg.DescribeClientQuotasRequestComponent
	strict     bool
}

// quotaFilterOf reads the filter as Kafka's ClientQuotasImage does.
func quotaFilterOf(req *kmsg.DescribeClientQuotasRequest) (f quotaFilter, refused *kerr.Error, message string) {
	f = quotaFilter{components: map[string]kmsg.DescribeClientQuotasRequestComponent{}, strict: req.Strict}
	for _, c := range req.Components {
		if _, twice := f.components[c.EntityType]; twice {
			return f, kerr.InvalidRequest, fmt.Sprintf("entity type %.60q is there twice", c.EntityType)
		}
		switch c.EntityType {
		case "user", "client-id", "ip":
		case "":
			return f, kerr.InvalidRequest, "an entity type is empty"
		default:
			return f, kerr.UnsupportedVersion, fmt.Sprintf("entity type %.60q is unknown", c.EntityType)
		}
		switch {
		case c.MatchType < matchExact || c.MatchType > matchSpecified:
			return f, kerr.InvalidRequest, fmt.Sprintf("match type %d is unknown", c.MatchType)
		case (c.MatchType == matchExact) != (c.Match != nil):
			return f, kerr.InvalidRequest, "a name is given with an exact match, and only then"
		}
		f.components[c.EntityType] = c
	}
	_, ip := f.components["ip"]
	if ip && len(f.components) > 1 {
		return f, kerr.InvalidRequest, "an ip stands alone, without user or client-id"
	}
	return f, nil, ""
}

// matches tells whether each component has its part, and if the filter is strict, that there is no other part.
func (f quotaFilter) matches(e fsm.QuotaEntity) bool {
	found := 0
	for _, part := range e.Proto() {
		c, asked := f.components[part.GetType()]
		switch {
		case !asked && f.strict:
			return false
		case !asked:
			continue
		case c.MatchType == matchExact && (part.Name == nil || part.GetName() != *c.Match):
			return false
		case c.MatchType == matchDefault && part.Name != nil:
			return false
		}
		found++
	}
	return found == len(f.components)
}
