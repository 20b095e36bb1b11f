package brokercmd

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/skiffmq/skiff/brokerd"
	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/version"
)

// adminGrace is how long requests to the admin server may still take when the process stops.
const adminGrace = time.Second

// serveAdmin serves every admin listener until the function that it returns is called.
func serveAdmin(listeners []net.Listener, broker *brokerd.Broker, logger hclog.Logger) (stop func()) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), brokerd.NewCollector(broker))
	a := admin.Admin{
		Ready:    func() (bool, string) { s := broker.Status(); return s.Ready, s.NotReady },
		Status:   func() any { return adminStatus(broker.Status()) },
		Registry: registry,
	}
	servers := make([]*admin.Server, 0, len(listeners))
	for _, l := range listeners {
		servers = append(servers, admin.Serve(l, a))
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
		defer cancel()
		for _, s := range servers {
			if err := s.Close(ctx); err != nil {
				logger.Warn("the admin server did not stop cleanly", "error", err)
			}
		}
	}
}

// adminStatus is the broker's status as /status tells it.
func adminStatus(s brokerd.Status) admin.Status {
	out := admin.Status{
		Role: "broker", NodeID: s.NodeID, PID: os.Getpid(), ClusterID: s.ClusterID,
		Ready: s.Ready, NotReadyReason: s.NotReady, Version: version.String(),
		BrokerStatus: &admin.BrokerStatus{
			BrokerEpoch: s.BrokerEpoch, State: s.State.String(), Fenced: s.Fenced,
			Partitions: s.Replicas.Partitions, Led: s.Replicas.Led,
		},
	}
	if img := s.Image; img != nil {
		id := img.Lineage().ID
		out.Lineage = admin.Lineage{Number: id.Number, UUID: id.UUID.String()}
		out.MetadataOffset, out.ControllerEpoch, out.Digest = img.AppliedOffset(), img.ControllerEpoch(), img.Digest().String()
	}
	return out
}
