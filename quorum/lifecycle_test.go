package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func testConfig(dir string) Config { return Config{NodeID: 101, DataDir: dir}.withDefaults() }

func openIdentityIn(t *testing.T, dir string) *identity {
	t.Helper()
	id, err := openIdentity(testConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { id.close() })
	return id
}

// planFor is a plan in which the directory votes.
func planFor(id *identity) plan {
	p := testPlan()
	p.Voters[0] = planVoter{NodeID: id.meta.NodeID, DirectoryID: id.meta.Directory.String(), Address: "a:9093"}
	return *p
}

func prepareOn(t *testing.T, id *identity, p plan) {
	t.Helper()
	if refusal, err := id.prepare(p); refusal != "" || err != nil {
		t.Fatalf("prepare: %q, %v", refusal, err)
	}
}

func TestDirectoryKeepsItsUUID(t *testing.T) {
	dir := t.TempDir()
	id := openIdentityIn(t, dir)
	first := id.meta.Directory
	id.close()
	if again := openIdentityIn(t, dir); again.meta.Directory != first || again.meta.formatted() {
		t.Errorf("directory %s, then %s", first, again.meta.Directory)
	}
}

func TestDirectoryHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	openIdentityIn(t, dir)
	if _, err := openIdentity(testConfig(dir)); !errors.Is(err, ErrDirectoryInUse) {
		t.Errorf("%v", err)
	}
}

// TestCommitIsCompletedFromEveryCrashPoint: once the commit has begun, the next start ends it, whatever was done.
func TestCommitIsCompletedFromEveryCrashPoint(t *testing.T) {
	crashes := map[string]func(id *identity) error{
		"plan marked": func(*identity) error { return nil },
		"raft directory half made": func(id *identity) error {
			return errors.Join(os.MkdirAll(id.raftDir(), 0o755), os.WriteFile(filepath.Join(id.raftDir(), boltFile), []byte("torn"), 0o600))
		},
		"store made": func(id *identity) error {
			pin := storePin{Kind: StoreBolt, UUID: newUUID(), Format: storeFormat}
			return errors.Join(os.MkdirAll(id.raftDir(), 0o755), makeStore(id.raftDir(), pin, hclog.NewNullLogger()))
		},
		"snapshot made": func(id *identity) error {
			pin := storePin{Kind: StoreBolt, UUID: newUUID(), Format: storeFormat}
			return installGenesis(id.cfg.DataDir, &id.plan.Plan, pin, hclog.NewNullLogger())
		},
		"meta written": func(id *identity) error {
			pin := storePin{Kind: StoreBolt, UUID: newUUID(), Format: storeFormat}
			m := id.meta
			m.Plan, m.Store = &id.plan.Plan, pin
			return errors.Join(installGenesis(id.cfg.DataDir, m.Plan, pin, hclog.NewNullLogger()), m.save(id.cfg.DataDir))
		},
	}
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id := openIdentityIn(t, dir)
			p := planFor(id)
			prepareOn(t, id, p)
			id.plan.Committing = true
			if err := errors.Join(id.plan.save(dir), crash(id)); err != nil {
				t.Fatal(err)
			}
			id.close()

			again := openIdentityIn(t, dir)
			if !again.meta.formatted() || !again.meta.Plan.equal(&p) {
				t.Fatalf("meta %+v", again.meta)
			}
			if _, err := os.Stat(filepath.Join(dir, planFile)); !os.IsNotExist(err) {
				t.Errorf("the plan file is still there: %v", err)
			}
			checkGround(t, again)
		})
	}
}

func checkGround(t *testing.T, id *identity) {
	t.Helper()
	e, err := openEngine(id.meta.Store.Kind, id.raftDir(), false, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := id.meta.Store.check(e, "store"); err != nil {
		t.Error(err)
	}
	snaps, err := newSnapshotStore(id.raftDir(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	g, err := preflight(e, snaps, &logSize{}, id.meta.self(), hclog.NewNullLogger())
	if err != nil || g.lastIndex != genesisIndex {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestPreparedPlanGivesWayAndCommittedOneDoesNot(t *testing.T) {
	id := openIdentityIn(t, t.TempDir())
	first, second := planFor(id), planFor(id)
	prepareOn(t, id, first)
	prepareOn(t, id, second)
	if refusal, err := id.commit(first.ID); refusal == "" || err != nil {
		t.Errorf("a plan that was replaced was committed: %v", err)
	}
	if refusal, err := id.commit(second.ID); refusal != "" || err != nil {
		t.Fatalf("%q, %v", refusal, err)
	}
	prepareOn(t, id, second) // the same again is no contradiction
	if refusal, err := id.prepare(first); !strings.Contains(refusal, first.ID) || !strings.Contains(refusal, second.ID) || err != nil {
		t.Errorf("%q, %v; want both plans named", refusal, err)
	}
	if refusal, err := id.commit(second.ID); refusal != "" || err != nil {
		t.Errorf("%q, %v", refusal, err)
	}
}

func TestPlanForSomebodyElseIsRefused(t *testing.T) {
	id := openIdentityIn(t, t.TempDir())
	p := planFor(id)
	p.Voters[0].DirectoryID = newUUID().String()
	if refusal, err := id.prepare(p); !strings.Contains(refusal, id.meta.Directory.String()) || err != nil {
		t.Errorf("%q, %v", refusal, err)
	}
	if refusal, err := id.commit(p.ID); refusal == "" || err != nil {
		t.Errorf("%q, %v", refusal, err)
	}
}

// TestWrongDirectoryIsRefusedWithBothValues: exit code 78, the file, what was expected and what is there, the next step.
func TestWrongDirectoryIsRefusedWithBothValues(t *testing.T) {
	formatted := func(t *testing.T) (string, plan) {
		dir := t.TempDir()
		id := openIdentityIn(t, dir)
		p := planFor(id)
		prepareOn(t, id, p)
		if refusal, err := id.commit(p.ID); refusal != "" || err != nil {
			t.Fatalf("%q, %v", refusal, err)
		}
		id.close()
		return dir, p
	}
	other := newUUID().String()
	cases := map[string]struct {
		change func(t *testing.T, cfg *Config)
		says   []string
	}{
		"another node's volume": {func(_ *testing.T, c *Config) { c.NodeID = 102 }, []string{"meta", "101", "102"}},
		"another cluster":       {func(_ *testing.T, c *Config) { c.ClusterID = other }, []string{"meta", other}},
		"another kind of store": {func(_ *testing.T, c *Config) { c.LogStore = StoreWAL }, []string{"meta", "bolt", "wal"}},
		"no meta": {func(t *testing.T, c *Config) {
			if err := os.Remove(filepath.Join(c.DataDir, metaFile)); err != nil {
				t.Fatal(err)
			}
		}, []string{"meta", "raft"}},
		"damaged meta": {func(t *testing.T, c *Config) {
			if err := os.Truncate(filepath.Join(c.DataDir, metaFile), 40); err != nil {
				t.Fatal(err)
			}
		}, []string{"meta"}},
		"empty meta": {func(t *testing.T, c *Config) {
			if err := os.Truncate(filepath.Join(c.DataDir, metaFile), 0); err != nil {
				t.Fatal(err)
			}
		}, []string{"meta"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir, p := formatted(t)
			cfg := testConfig(dir)
			c.change(t, &cfg)
			before, _ := os.ReadFile(filepath.Join(dir, metaFile))
			_, err := openIdentity(cfg)
			var stop *StopError
			if !errors.As(err, &stop) || stop.Code != ExitRefused || stop.Fix == "" {
				t.Fatalf("%v, want exit code 78 with a fix", err)
			}
			if name == "another cluster" {
				c.says = append(c.says, p.ClusterID)
			}
			for _, w := range c.says {
				if !strings.Contains(stop.Cause, w) {
					t.Errorf("%q does not say %q", stop.Cause, w)
				}
			}
			if after, _ := os.ReadFile(filepath.Join(dir, metaFile)); string(after) != string(before) {
				t.Error("the refusal changed the file")
			}
		})
	}
}

func TestNodeIDMayBeCorrectedBeforeInit(t *testing.T) {
	dir := t.TempDir()
	id := openIdentityIn(t, dir)
	id.close()
	cfg := testConfig(dir)
	cfg.NodeID = 102
	again, err := openIdentity(cfg)
	if err != nil || again.meta.NodeID != 102 || again.meta.Directory != id.meta.Directory {
		t.Fatalf("%v", err)
	}
	prepareOn(t, again, planFor(again))
	again.close()
	if _, err := openIdentity(testConfig(dir)); err == nil {
		t.Error("a plan counts on node 102, and node 101 took its directory")
	}
}
