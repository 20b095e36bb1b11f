package bootstrap_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// lost is the image of a cluster that was lost: two brokers and a topic that they led.
func lost(t *testing.T) *fsm.Image {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	leader, epoch := int32(1), int32(7)
	records := []*metadatav1.Record{broker(1, 1), broker(2, 2), unfenced(1, 1), unfenced(2, 2), {Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{TopicId: fsm.UUID{3}.Bytes(), Name: "orders"}}}}
	records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
		TopicId: fsm.UUID{3}.Bytes(), Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Leader: leader, LeaderEpoch: epoch, PartitionEpoch: epoch,
		Directories: [][]byte{fsm.UUID{4, 1}.Bytes(), fsm.UUID{4, 2}.Bytes()},
	}}})
	img, _, err = fsm.FoldBatches(img, []*metadatav1.Batch{{RequestId: fsm.UUID{5}.Bytes(), Records: records}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func broker(id int32, epoch int64) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
		BrokerId: id, BrokerEpoch: epoch, IncarnationId: fsm.UUID{6, byte(id)}.Bytes(), Fenced: true,
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		Directories: [][]byte{fsm.UUID{4, byte(id)}.Bytes()},
	}}}
}

func unfenced(id int32, epoch int64) *metadatav1.Record {
	no := false
	return &metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
		BrokerId: id, BrokerEpoch: epoch, Fenced: &no,
	}}}
}

func restoreWith(t *testing.T, c *quorumtest.Cluster, r bootstrap.Restoration, opts bootstrap.Options) (bootstrap.Restored, error) {
	t.Helper()
	if opts.Dial == nil {
		opts.Dial = c.Net.Host("tool").Dial
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return bootstrap.Restore(ctx, c.Voters(), r, opts)
}

// checkReborn compares the quorum with what the restore promised.
func checkReborn(t *testing.T, c *quorumtest.Cluster, done bootstrap.Restored) {
	t.Helper()
	awaitOne(t, c)
	img := c.Active().Image()
	if img.ClusterID() != done.ClusterID || img.Lineage().ID != done.Lineage || !img.Lineage().Descends(done.Before.Lineage().ID) {
		t.Errorf("cluster %s, lineage %+v; the restore said %s, %s", img.ClusterID(), img.Lineage(), done.ClusterID, done.Lineage)
	}
	if img.NumTopics() != done.Before.NumTopics() || img.NumLeaderless() != img.NumPartitions() || img.Confirmed() {
		t.Errorf("%d topics, %d of %d partitions without a leader, confirmed %t", img.NumTopics(), img.NumLeaderless(), img.NumPartitions(), img.Confirmed())
	}
	if img.NextOffset() <= done.Before.NextOffset() || img.ControllerEpoch() <= done.Before.ControllerEpoch() {
		t.Errorf("offset %d after %d, controller epoch %d after %d", img.NextOffset(), done.Before.NextOffset(), img.ControllerEpoch(), done.Before.ControllerEpoch())
	}
	if err := fsm.Check(img); err != nil {
		t.Error(err)
	}
}

// TestRestoreBeginsANewLineage on every voter, and a repetition finds nothing to do; the nodes start again from it.
func TestRestoreBeginsANewLineage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 3, nil)
		r := bootstrap.Restoration{Image: lost(t), Replace: true}
		planned, err := restoreWith(t, c, bootstrap.Restoration{Image: r.Image, Replace: true, DryRun: true}, bootstrap.Options{})
		if err != nil || planned.ClusterID != r.Image.ClusterID() || c.Nodes[0].Status().Formatted {
			t.Fatalf("dry run: %+v, %v", planned.Result, err)
		}
		done, err := restoreWith(t, c, r, bootstrap.Options{})
		if err != nil || done.AlreadyInitialised || done.Resumed {
			t.Fatalf("%+v, %v", done.Result, err)
		}
		checkReborn(t, c, done)
		again, err := restoreWith(t, c, r, bootstrap.Options{})
		if err != nil || !again.AlreadyInitialised || again.Lineage != done.Lineage || again.After.Digest() != done.After.Digest() {
			t.Errorf("again: %+v, %v", again.Result, err)
		}
		for _, n := range c.Nodes {
			c.Crash(n)
			c.Start(n)
		}
		checkReborn(t, c, done)
	})
}

// TestRestoreOfSomethingElseIsRefused once a plan is committed: another file, another kind of restore, witnesses that know
// more, an init that came first.
func TestRestoreOfSomethingElseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 3, nil)
		img := lost(t)
		done, err := restoreWith(t, c, bootstrap.Restoration{Image: img}, bootstrap.Options{})
		if err != nil || done.ClusterID == img.ClusterID() {
			t.Fatalf("%+v, %v", done.Result, err)
		}
		checkReborn(t, c, done)
		_, err = restoreWith(t, c, bootstrap.Restoration{Image: done.Before, Replace: true}, bootstrap.Options{})
		wantRefused(t, err, "as the new cluster "+done.ClusterID)
		_, err = restoreWith(t, c, bootstrap.Restoration{Image: done.After}, bootstrap.Options{})
		wantRefused(t, err, "another snapshot", img.Digest().String())
		witness := bootstrap.Witness{Name: "w", ClusterID: img.ClusterID(), Lineage: fsm.LineageID{Number: 5, UUID: fsm.UUID{8}}}
		_, err = restoreWith(t, c, bootstrap.Restoration{Image: img, Witnesses: []bootstrap.Witness{witness}}, bootstrap.Options{})
		wantRefused(t, err, "knew less")
		_, err = restoreWith(t, c, bootstrap.Restoration{Image: img}, bootstrap.Options{ClusterID: fsm.UUID{9}.String()})
		wantRefused(t, err, fsm.UUID{9}.String())

		other := quorumtest.New(t, 3, nil)
		_, err = restoreWith(t, other, bootstrap.Restoration{Image: img}, bootstrap.Options{})
		wantRefused(t, err, "an init")
	})
}

// TestContradictoryRestorationsAreRefused before any node is asked.
func TestContradictoryRestorationsAreRefused(t *testing.T) {
	img := lost(t)
	voters := []bootstrap.Voter{{NodeID: 101, Address: "nobody:1"}}
	for name, c := range map[string]struct {
		r         bootstrap.Restoration
		clusterID string
	}{
		"replaces under another id": {bootstrap.Restoration{Image: img, Replace: true}, fsm.UUID{9}.String()},
		"a drill under the old id":  {bootstrap.Restoration{Image: img}, img.ClusterID()},
		"a witness of a stranger":   {bootstrap.Restoration{Image: img, Witnesses: []bootstrap.Witness{{Name: "w", ClusterID: fsm.UUID{7}.String()}}}, ""},
	} {
		if _, err := bootstrap.Restore(t.Context(), voters, c.r, bootstrap.Options{ClusterID: c.clusterID}); !errors.Is(err, bootstrap.ErrRestoration) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWitnessesRaiseTheNewNumbers above what they have seen.
func TestWitnessesRaiseTheNewNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 1, nil)
		img := lost(t)
		done, err := restoreWith(t, c, bootstrap.Restoration{Image: img, Replace: true, Witnesses: []bootstrap.Witness{
			{Name: "a", ClusterID: img.ClusterID(), Lineage: fsm.LineageID{Number: 4, UUID: fsm.UUID{8}}, NextOffset: 10, Epoch: 1 << 40},
			{Name: "b", ClusterID: img.ClusterID(), Lineage: img.Lineage().ID, NextOffset: 1 << 50, Epoch: 5},
		}}, bootstrap.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkReborn(t, c, done)
		now := c.Active().Image()
		if now.Lineage().ID.Number != 5 || now.NextOffset() <= 1<<50 || now.ControllerEpoch() <= 1<<40 {
			t.Errorf("lineage %s, offset %d, controller epoch %d", now.Lineage().ID, now.NextOffset(), now.ControllerEpoch())
		}
	})
}

// TestSameFileTwiceMakesTwoClusters: their lineages have nothing to do with each other.
func TestSameFileTwiceMakesTwoClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := lost(t)
		var lineages []fsm.Lineage
		for range 2 {
			c := quorumtest.Start(t, 1, nil)
			done, err := restoreWith(t, c, bootstrap.Restoration{Image: img, Replace: true}, bootstrap.Options{})
			if err != nil {
				t.Fatal(err)
			}
			lineages = append(lineages, done.After.Lineage())
		}
		if a, b := lineages[0], lineages[1]; a.ID == b.ID || a.Descends(b.ID) || b.Descends(a.ID) {
			t.Errorf("lineages %+v and %+v", a, b)
		}
	})
}

// TestRestoreResumesWhereverTheToolDied: whoever repeats the command ends with one quorum, of the plan that was prepared.
func TestRestoreResumesWhereverTheToolDied(t *testing.T) {
	for left := 1; ; left++ {
		finished := false
		synctest.Test(t, func(t *testing.T) {
			c := quorumtest.Start(t, 3, nil)
			tool := &dyingTool{left: left, dial: c.Net.Host("tool").Dial}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r := bootstrap.Restoration{Image: lost(t), Replace: true}
			first, err := bootstrap.Restore(ctx, c.Voters(), r, bootstrap.Options{Dial: tool.Dial, AttemptTimeout: time.Second})
			finished = err == nil
			second, err := restoreWith(t, c, r, bootstrap.Options{})
			if err != nil {
				t.Fatalf("died after %d writes, then: %v", left, err)
			}
			if finished && (!second.AlreadyInitialised || second.Lineage != first.Lineage) {
				t.Errorf("finished, then %+v", second.Result)
			}
			checkReborn(t, c, second)
		})
		if finished || t.Failed() {
			return
		}
	}
}

// TestInitDoesNotEndARestore that is committed on some of the voters.
func TestInitDoesNotEndARestore(t *testing.T) {
	for left := 1; ; left++ {
		finished, partly := false, false
		synctest.Test(t, func(t *testing.T) {
			c := quorumtest.Start(t, 3, nil)
			tool := &dyingTool{left: left, dial: c.Net.Host("tool").Dial}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := bootstrap.Restore(ctx, c.Voters(), bootstrap.Restoration{Image: lost(t), Replace: true}, bootstrap.Options{Dial: tool.Dial, AttemptTimeout: time.Second})
			finished = err == nil
			time.Sleep(time.Second) // what the tool had asked for before it died is done by now
			formatted := 0
			for _, n := range c.Nodes {
				if n.Status().Formatted {
					formatted++
				}
			}
			if partly = formatted > 0 && formatted < len(c.Nodes); !partly {
				return
			}
			_, err = initWith(t, c, c.Voters(), bootstrap.Options{})
			wantRefused(t, err, "a restore of cluster")
			var refused *bootstrap.RefusedError
			if errors.As(err, &refused) && !strings.Contains(refused.Fix, "snapshot restore") {
				t.Errorf("fix %q", refused.Fix)
			}
		})
		if partly || t.Failed() {
			return
		}
		if finished {
			t.Fatal("no run ended between two commits")
		}
	}
}
