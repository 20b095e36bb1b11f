package rpc

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// maxReports bounds the inventories that are being received at a time (I20): a large one takes many megabytes until it
// is decided. The others wait.
const maxReports = 8

type inventoryStream = grpc.ClientStreamingServer[controllerv1.ReportInventoryRequest, controllerv1.ReportInventoryResponse]

// ReportInventory gathers the parts of a report and has package controller take it in.
func (s *brokerService) ReportInventory(stream inventoryStream) error {
	if err := s.admit(); err != nil {
		return err
	}
	// A report may be large: it is not read where it would be refused.
	if !s.Loop.Active() {
		return s.notActive()
	}
	ctx, cancel := withTimeout(stream.Context(), active.MaxOpTime.Milliseconds())
	defer cancel()
	select {
	case s.reports <- struct{}{}:
		defer func() { <-s.reports }()
	case <-ctx.Done():
		return s.refuse(controllerv1.ErrorCode_ERROR_CODE_OVERLOADED, "%d inventories are being received; report again", maxReports)
	}
	report, err := s.receiveReport(stream)
	if err != nil {
		return err
	}
	by := byBroker(ctx, "ReportInventory")
	resp, _, err := active.DoPrompt(ctx, s.Loop, controller.ReportInventory, report, by.cause, by.requestID)
	if err != nil {
		return s.status(err)
	}
	return stream.SendAndClose(resp)
}

// receiveReport reads a report to its end. Every part must be of the same incarnation and of the same look.
func (s *brokerService) receiveReport(stream inventoryStream) (*controller.InventoryReport, error) {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST
	var report *controller.InventoryReport
	var first *controllerv1.ReportInventoryRequest
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if report == nil {
			first = part
			report = controller.NewInventoryReport(part.GetBrokerId(), part.GetBrokerEpoch(), part.GetMetadataOffset())
		}
		if part.GetBrokerId() != first.GetBrokerId() || part.GetBrokerEpoch() != first.GetBrokerEpoch() || part.GetMetadataOffset() != first.GetMetadataOffset() {
			return nil, s.refuse(invalid, "the parts of an inventory are of two brokers, broker epochs or metadata offsets")
		}
		if err := report.Add(part.GetReplicas()); err != nil {
			return nil, s.refuse(invalid, "%v", err)
		}
	}
	if report == nil {
		return nil, s.refuse(invalid, "an inventory without a part names no broker")
	}
	report.Seal()
	return report, nil
}
