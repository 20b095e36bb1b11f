package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// AlterClientQuotas, key 49, versions 0 and 1: sets and removes quotas (KIP-546). Forwarded to the active controller,
// which judges each entity alone. Quotas are kept and described; brokers do not slow clients down by them yet.
var alterClientQuotasAPI = api{
	key:        49,
	advertised: versions(0, 1),
	served:     versions(0, 1),
	handle:     handled((*Server).alterClientQuotas),
}

// alterClientQuotas has quotas changed and waits until that is visible here.
func (s *Server) alterClientQuotas(ctx context.Context, c *call, req *kmsg.AlterClientQuotasRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.AlterClientQuotasResponse](req)
	resp.Entries = []kmsg.AlterClientQuotasResponseEntry{}
	if len(req.Entries) == 0 {
		return resp, nil
	}
	ask := &controllerv1.AlterClientQuotasRequest{Context: c.requestContext("AlterClientQuotas", adminTimeoutDefault), ValidateOnly: req.ValidateOnly}
	for _, e := range req.Entries {
		ask.Entries = append(ask.Entries, alterQuotas(e))
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeoutDefault)
	defer cancel()
	altered, err := s.config.Controller.AlterClientQuotas(ctx, ask)
	if err != nil {
		code := s.code(err)
		for _, e := range ask.GetEntries() {
			resp.Entries = append(resp.Entries, quotasAltered(e.GetEntity(), code, err.Error()))
		}
		return resp, nil
	}
	if !req.ValidateOnly {
		s.awaitMetadata(ctx, altered.GetMetadataOffset())
	}
	for _, e := range altered.GetEntries() {
		code, message := itemCode(e.GetError())
		resp.Entries = append(resp.Entries, quotasAltered(e.GetEntity(), code, message))
	}
	return resp, nil
}

// alterQuotas translates one entity of the request.
func alterQuotas(e kmsg.AlterClientQuotasRequestEntry) *controllerv1.AlterQuotas {
	out := &controllerv1.AlterQuotas{}
	for _, part := range e.Entity {
		out.Entity = append(out.Entity, &metadatav1.QuotaEntity{Type: part.Type, Name: part.Name})
	}
	for _, op := range e.Ops {
		change := &controllerv1.QuotaChange{Key: op.Key}
		if !op.Remove {
			change.Value = proto.Float64(op.Value)
		}
		out.Changes = append(out.Changes, change)
	}
	return out
}

// quotasAltered is the answer for one entity.
func quotasAltered(entity []*metadatav1.QuotaEntity, code int16, message string) kmsg.AlterClientQuotasResponseEntry {
	m := kmsg.NewAlterClientQuotasResponseEntry()
	m.ErrorCode, m.ErrorMessage = code, messageOf(message)
	for _, part := range entity {
		p := kmsg.NewAlterClientQuotasResponseEntryEntity()
		p.Type, p.Name = part.GetType(), part.Name
		m.Entity = append(m.Entity, p)
	}
	return m
}
