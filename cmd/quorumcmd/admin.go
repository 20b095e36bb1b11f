package quorumcmd

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/version"
	"github.com/skiffmq/skiff/quorum"
)

// adminGrace is how long requests to the admin server may still take when the process stops.
const adminGrace = time.Second

// newRegistry gives a registry with the metrics of the process itself.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// serveAdmin serves every admin listener until the function that it returns is called.
func serveAdmin(listeners []net.Listener, node *quorum.Node, registry *prometheus.Registry, logger hclog.Logger) (stop func()) {
	a := admin.Admin{
		Ready:    func() (bool, string) { s := node.Status(); return s.Ready, s.NotReady },
		Status:   func() any { return adminStatus(node.Status()) },
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

// adminStatus is the node's status as /status tells it.
func adminStatus(s quorum.Status) admin.Status {
	out := admin.Status{
		Role: "quorum", NodeID: s.NodeID, PID: os.Getpid(), ClusterID: s.ClusterID,
		Ready: s.Ready, NotReadyReason: s.NotReady, Version: version.String(),
		QuorumStatus: &admin.QuorumStatus{
			RaftState: s.RaftState, Term: s.Term, LeaderID: s.LeaderID,
			Active: s.Active, ActiveController: s.ActiveController, Frozen: s.Frozen,
		},
	}
	if a := s.Archive; a != nil {
		out.SnapshotArchive = &admin.SnapshotArchive{
			Dir: a.Dir, LastSuccess: timeText(a.LastSuccess), LastWritten: timeText(a.LastWritten), LastFile: a.LastFile,
			LastError: a.LastError, LastErrorAt: timeText(a.LastErrorAt), Failing: a.Failing,
		}
	}
	if img := s.Image; img != nil {
		id := img.Lineage().ID
		out.Lineage = admin.Lineage{Number: id.Number, UUID: id.UUID.String()}
		out.Unconfirmed = !img.Confirmed()
		out.MetadataOffset, out.ControllerEpoch, out.Digest = img.AppliedOffset(), img.ControllerEpoch(), img.Digest().String()
	}
	return out
}

// timeText is RFC 3339, empty for never.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
