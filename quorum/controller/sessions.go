package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// maxNamedInReason bounds how many brokers a reason names (I20).
const maxNamedInReason = 8

// ExpireSessions fences the brokers whose sessions are over, all decided together, none of them acceptable as leader.
// The reply lists them.
func ExpireSessions(img *fsm.Image, env *Env) Decision[[]int32] {
	ids := env.Liveness.Expired(img, env.Now)
	if len(ids) == 0 {
		return Decision[[]int32]{}
	}
	brokers := make([]*fsm.Broker, 0, len(ids))
	for _, id := range ids {
		if b, ok := img.Broker(id); ok {
			brokers = append(brokers, b)
		}
	}
	return Decision[[]int32]{
		Batches:  env.batches(img, env.expiryReason(brokers), env.fence(img, brokers)),
		Reply:    ids,
		Remember: clearShutdowns(ids),
	}
}

func clearShutdowns(ids []int32) func(*Liveness) {
	return func(l *Liveness) {
		for _, id := range ids {
			l.ClearControlledShutdownOffset(id)
		}
	}
}

func (e *Env) expiryReason(brokers []*fsm.Broker) *metadatav1.Reason {
	said := make([]string, 0, maxNamedInReason)
	for _, b := range brokers {
		if len(said) == maxNamedInReason {
			said = append(said, fmt.Sprintf("and %d more", len(brokers)-maxNamedInReason))
			break
		}
		late := e.Liveness.Overdue(b, e.Now).Round(100 * time.Millisecond).Seconds()
		said = append(said, fmt.Sprintf("broker %d missed its session by %.1f s", b.ID, late))
	}
	return reason("session_expired", "%s", strings.Join(said, ", "))
}

// FenceBroker fences one broker for a reason of the caller's, for example that its process was found dead. Fencing a
// fenced broker changes nothing.
func FenceBroker(img *fsm.Image, env *Env, id int32, why *metadatav1.Reason) Decision[struct{}] {
	b, ok := img.Broker(id)
	if !ok {
		return refuse[struct{}](controllerv1.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, "broker %d is not registered", id)
	}
	if b.Fenced {
		return Decision[struct{}]{}
	}
	return Decision[struct{}]{
		Batches:  env.batches(img, why, env.fence(img, []*fsm.Broker{b})),
		Remember: clearShutdowns([]int32{id}),
	}
}

// FenceRefused fences the brokers whose processes a probe has shown to be gone, all decided together, none of them
// acceptable as leader. One that has registered again or was heard since then is left alone. The reply lists the fenced.
func FenceRefused(img *fsm.Image, env *Env, refused []RefusedProbe) Decision[[]int32] {
	var brokers []*fsm.Broker
	var ids []int32
	var said []string
	for _, r := range slices.SortedFunc(slices.Values(refused), byBroker) {
		b, ok := img.Broker(r.BrokerID)
		if !ok || b.Fenced || b.Epoch != r.BrokerEpoch || env.Liveness.clears(&r.Suspicion) {
			continue
		}
		brokers, ids = append(brokers, b), append(ids, b.ID)
		if len(said) < maxNamedInReason {
			said = append(said, r.text())
		}
	}
	if len(brokers) == 0 {
		return Decision[[]int32]{}
	}
	if more := len(brokers) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return Decision[[]int32]{
		Batches:  env.batches(img, reason("probe_refused", "%s", strings.Join(said, ", ")), env.fence(img, brokers)),
		Reply:    ids,
		Remember: clearShutdowns(ids),
	}
}

func (r RefusedProbe) text() string {
	what := "closed its session without a goodbye"
	if r.AfterClaim {
		what = "was not heard since the claim"
	}
	return fmt.Sprintf("broker %d %s and %s, which accepted connections before, refuses them", r.BrokerID, what, r.Address)
}
