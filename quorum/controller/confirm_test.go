package controller

import (
	"testing"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// refusedWhile is what a decision function refuses.
func refusedWhile[Req, Resp any](decide func(*fsm.Image, *Env, Req) Decision[Resp], req Req) func(*fsm.Image, *Env) *Refusal {
	return func(img *fsm.Image, env *Env) *Refusal { return decide(img, env, req).Refused }
}

// TestEveryMutationIsRefusedUntilConfirmed asks for everything that users and operators can ask for (I22). What is not in
// the list of what goes on must be refused; a new request without a place here fails.
func TestEveryMutationIsRefusedUntilConfirmed(t *testing.T) {
	requests := map[string]func(*fsm.Image, *Env) *Refusal{
		"CreateTopics":       refusedWhile(CreateTopics, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{Name: "t", NumPartitions: 1, ReplicationFactor: 1}}}),
		"DeleteTopics":       refusedWhile(DeleteTopics, &controllerv1.DeleteTopicsRequest{Topics: []*controllerv1.DeletableTopic{{Name: "t"}}}),
		"ElectLeaders":       refusedWhile(ElectLeaders, &controllerv1.ElectLeadersRequest{Type: controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN}),
		"UnregisterBroker":   refusedWhile(UnregisterBroker, &controllerv1.UnregisterBrokerRequest{BrokerId: 1}),
		"AlterConfigs":       refusedWhile(AlterConfigs, &controllerv1.AlterConfigsRequest{}),
		"CreatePartitions":   refusedWhile(CreatePartitions, &controllerv1.CreatePartitionsRequest{}),
		"AlterReassignments": refusedWhile(AlterReassignments, &controllerv1.AlterReassignmentsRequest{}),
		"AlterClientQuotas":  refusedWhile(AlterClientQuotas, &controllerv1.AlterClientQuotasRequest{}),
		"UpdateFeatures":     refusedWhile(UpdateFeatures, &controllerv1.UpdateFeaturesRequest{}),
		"UndeleteTopic":      refusedWhile(UndeleteTopic, &controllerv1.UndeleteTopicRequest{Name: "t"}),
		"ConfirmLineage":     refusedWhile(ConfirmLineage, &controllerv1.ConfirmLineageRequest{}),
		"ListAwaiting":       refusedWhile(ListAwaiting, &controllerv1.ListAwaitingRequest{}),
		"ElectAwaiting":      refusedWhile(ElectAwaiting, &controllerv1.ElectAwaitingRequest{Now: true}),
		"ListStrays":         refusedWhile(ListStrays, &controllerv1.ListStraysRequest{}),
	}
	goesOn := map[string]bool{"ConfirmLineage": true, "ListAwaiting": true, "ElectAwaiting": true, "ListStrays": true}
	w := newWorld(t)
	w.cmdRebirth(nil)
	for _, m := range controllerv1.AdminService_ServiceDesc.Methods {
		request, known := requests[m.MethodName]
		if !known {
			t.Errorf("%s: nothing says whether it is refused while the lineage is unconfirmed", m.MethodName)
			continue
		}
		r := request(w.img, w.env)
		if refused := r != nil && r.Code == controllerv1.ErrorCode_ERROR_CODE_UNCONFIRMED; refused == goesOn[m.MethodName] {
			t.Errorf("%s: refused %v", m.MethodName, r)
		}
	}
	preferred := &controllerv1.ElectLeadersRequest{Type: controllerv1.ElectionType_ELECTION_TYPE_PREFERRED}
	if d := ElectLeaders(w.img, w.env, preferred); d.Refused != nil {
		t.Errorf("preferred elections: %v", d.Refused)
	}
	confirm := &controllerv1.ConfirmLineageRequest{Lineage: w.img.Lineage().ID.Proto()}
	tell(w, ConfirmLineage(w.img, w.env, confirm), nil)
	for name, request := range requests {
		if r := request(w.img, w.env); r != nil && r.Code == controllerv1.ErrorCode_ERROR_CODE_UNCONFIRMED {
			t.Errorf("%s is refused of a confirmed lineage", name)
		}
	}
}
