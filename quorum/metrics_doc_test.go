package quorum_test

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// TestEveryMetricIsDescribed: what a node exports is in docs/metrics.md.
func TestEveryMetricIsDescribed(t *testing.T) {
	doc, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		quorumtest.New(t, 1, func(cfg *quorum.Config) { cfg.Registerer = registry })
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.Contains(string(doc), "| `"+f.GetName()+"` |") {
				t.Errorf("| `%s` | %s |", f.GetName(), f.GetHelp())
			}
		}
	})
}
