package controller

import (
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// quotaKey is a key of Kafka's QuotaConfig.
type quotaKey struct {
	// max is the greatest value; whole says that it is a whole number.
	max   float64
	whole bool
}

const connectionRate = "connection_creation_rate"

// clientQuotas are the keys for users and client ids, ipQuotas those for addresses.
var (
	clientQuotas = map[string]quotaKey{
		"producer_byte_rate":       {max: math.MaxInt64, whole: true},
		"consumer_byte_rate":       {max: math.MaxInt64, whole: true},
		"request_percentage":       {max: math.MaxFloat64},
		"controller_mutation_rate": {max: math.MaxFloat64},
	}
	ipQuotas = map[string]quotaKey{connectionRate: {max: math.MaxInt32, whole: true}}
)

// wholeTolerance is how far a value may be from a whole number that counts as one, as in ClientQuotaControlManager.
const wholeTolerance = 1e-6

// AlterClientQuotas sets and removes quotas (Kafka's AlterClientQuotas). An entity changes as a whole or not at all, and
// is judged alone; the good ones take effect together. Only differences are written.
func AlterClientQuotas(img *fsm.Image, env *Env, req *controllerv1.AlterClientQuotasRequest) Decision[*controllerv1.AlterClientQuotasResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.AlterClientQuotasResponse]{Refused: refused}
	}
	times := map[fsm.QuotaEntity]int{}
	for _, entry := range req.GetEntries() {
		if entity, err := fsm.QuotaEntityFromProto(entry.GetEntity()); err == nil {
			times[entity]++
		}
	}
	reply := &controllerv1.AlterClientQuotasResponse{}
	var records []*metadatav1.Record
	changed := 0
	for _, entry := range req.GetEntries() {
		recs, err := alterQuotas(img, entry, times)
		reply.Entries = append(reply.Entries, &controllerv1.AlterQuotasResult{Entity: entry.GetEntity(), Error: err})
		if records = append(records, recs...); len(recs) > 0 {
			changed++
		}
	}
	batches, refused := env.oneBatch(img, reason("quotas_altered", "quotas of %d kinds of clients were altered", changed), records)
	if refused != nil {
		return Decision[*controllerv1.AlterClientQuotasResponse]{Refused: refused}
	}
	return Decision[*controllerv1.AlterClientQuotasResponse]{Batches: batches, Reply: reply}
}

func alterQuotas(img *fsm.Image, entry *controllerv1.AlterQuotas, times map[fsm.QuotaEntity]int) ([]*metadatav1.Record, *controllerv1.Error) {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST
	entity, err := fsm.QuotaEntityFromProto(entry.GetEntity())
	if err != nil {
		return nil, itemError(invalid, "%s", err)
	}
	if n := times[entity]; n > 1 {
		return nil, itemError(invalid, "%s is in the request %d times", entity, n)
	}
	if e := checkAddress(entity); e != nil {
		return nil, e
	}
	wanted := map[string]*float64{}
	for _, change := range entry.GetChanges() {
		if _, twice := wanted[change.GetKey()]; twice {
			return nil, itemError(invalid, "%.60s is changed twice", change.GetKey())
		}
		value, err := checkQuota(entity, change)
		if err != nil {
			return nil, err
		}
		wanted[change.GetKey()] = value
	}
	return quotaRecords(img, entity, wanted), nil
}

// checkAddress wants an address as digits: what a name means would depend on where it is asked.
func checkAddress(entity fsm.QuotaEntity) *controllerv1.Error {
	if !entity.IP.Given || entity.IP.Default {
		return nil
	}
	if _, err := netip.ParseAddr(entity.IP.Name); err != nil {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%.60q is no IP address", entity.IP.Name)
	}
	return nil
}

// checkQuota returns the value as it is stored, nil for one that is taken away.
func checkQuota(entity fsm.QuotaEntity, change *controllerv1.QuotaChange) (*float64, *controllerv1.Error) {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST
	keys := clientQuotas
	if entity.IP.Given {
		keys = ipQuotas
	}
	key, ok := keys[change.GetKey()]
	if !ok {
		return nil, itemError(invalid, "%.60q is no quota of %s; there are %v", change.GetKey(), entity, slices.Sorted(maps.Keys(keys)))
	}
	if change.Value == nil {
		return nil, nil
	}
	value := change.GetValue()
	if key.whole && math.Abs(value-math.Round(value)) <= wholeTolerance {
		value = math.Round(value)
	}
	switch {
	case !(value > 0) || value > key.max || math.IsInf(value, 0): // not a number is not above 0 either
		return nil, itemError(invalid, "%s=%v: must be above 0 and at most %v", change.GetKey(), value, key.max)
	case key.whole && value != math.Trunc(value):
		return nil, itemError(invalid, "%s=%v: must be a whole number", change.GetKey(), value)
	}
	return &value, nil
}

func quotaRecords(img *fsm.Image, entity fsm.QuotaEntity, wanted map[string]*float64) []*metadatav1.Record {
	var records []*metadatav1.Record
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		was, had := img.Quota(entity, key)
		now := wanted[key]
		if (now == nil && !had) || (now != nil && had && was == *now) {
			continue
		}
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_ClientQuota{
			ClientQuota: &metadatav1.ClientQuota{Entity: entity.Proto(), Key: key, Value: now},
		}})
	}
	return records
}
