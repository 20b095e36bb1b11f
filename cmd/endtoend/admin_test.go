package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/cmd/proctest"
)

// TestAdministratorsToolsDoTheirWork: what kadm, sarama, kcat and skiff ask for takes effect on running brokers.
func TestAdministratorsToolsDoTheirWork(t *testing.T) {
	a := &administration{Cluster: proctest.Start(t, proctest.Options{Brokers: 4})}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *administration)
	}{
		{"a rehearsal is kept", rehearsalIsKept}, // while nothing else happens
		{"configs take effect", configsTakeEffect},
		{"configs of brokers", brokerConfigsTakeEffect},
		{"partitions are added", partitionsAreAdded},
		{"leaders are elected", leadersAreElected},
		{"the rest is described", restIsDescribed},
		{"sarama", saramaAdministers},
		{"a plan is made and applied", planIsApplied},
		{"replicas move and moves cancel", replicasMove},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, a) })
	}
}

type administration struct{ *proctest.Cluster }

// client of the admin protocol, and a topic for one test.
func (a *administration) topic(t *testing.T, name string, partitions int32) (context.Context, *kadm.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	createTopic(t, a.Cluster, name, partitions, 3)
	awaitVisible(t, a.Cluster, name)
	return ctx, a.admin(t)
}

// admin is a client that looks again when it is asked again.
func (a *administration) admin(t *testing.T) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(a.BootstrapServers()...), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// produce sends one record of size bytes with acks=all.
func (a *administration) produce(ctx context.Context, t *testing.T, topic string, size int) error {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(a.BootstrapServers()...), kgo.RecordRetries(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: make([]byte, size)}).FirstErr()
}

// eventually waits until every broker obeys, each of which learns of it by itself.
func (a *administration) eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	proctest.Eventually(t, patience, what, check)
}

func configsTakeEffect(t *testing.T, a *administration) {
	ctx, admin := a.topic(t, "configured", 1)
	if err := a.produce(ctx, t, "configured", 2_000); err != nil {
		t.Fatal(err)
	}
	answers, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kmsg.StringPtr("1000")},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kmsg.StringPtr("delete")},
	}, "configured", "nope")
	if err != nil || answers[0].Err != nil || !errors.Is(answers[1].Err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("%+v, %v", answers, err)
	}
	a.eventually(t, "a record of 2,000 bytes is too large", func() error {
		if err := a.produce(ctx, t, "configured", 2_000); !errors.Is(err, kerr.MessageTooLarge) {
			return fmt.Errorf("produced: %w", err)
		}
		return nil
	})
	// The old form of the request replaces everything.
	if answers, err = admin.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "min.insync.replicas", Value: kmsg.StringPtr("2")}}, "configured"); err != nil || answers[0].Err != nil {
		t.Fatalf("%+v, %v", answers, err)
	}
	a.eventually(t, "the record fits again", func() error { return a.produce(ctx, t, "configured", 2_000) })
	described, err := admin.DescribeTopicConfigs(ctx, "configured")
	if err != nil {
		t.Fatal(err)
	}
	var set []string
	for _, c := range described[0].Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			set = append(set, c.Key+"="+c.MaybeValue())
		}
	}
	if !slices.Equal(set, []string{"min.insync.replicas=2"}) {
		t.Errorf("set on the topic: %v", set)
	}
	for key, value := range map[string]string{"retention.ms": "soon", "segment.ms": "5", "cleanup.policy": "compact"} {
		answers, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, "configured")
		if err != nil || !errors.Is(answers[0].Err, kerr.InvalidConfig) {
			t.Errorf("%s=%s: %+v, %v", key, value, answers, err)
		}
	}
}

func brokerConfigsTakeEffect(t *testing.T, a *administration) {
	ctx, admin := a.topic(t, "bounded", 1)
	set := func(value string, ids ...int32) {
		t.Helper()
		op := kadm.AlterConfig{Op: kadm.SetConfig, Name: "message.max.bytes", Value: &value}
		if value == "" {
			op = kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "message.max.bytes"}
		}
		answers, err := admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{op}, ids...)
		if err != nil || answers[0].Err != nil {
			t.Fatalf("%v: %+v, %v", ids, answers, err)
		}
	}
	tooLarge := func() error {
		if err := a.produce(ctx, t, "bounded", 2_000); !errors.Is(err, kerr.MessageTooLarge) {
			return fmt.Errorf("produced: %w", err)
		}
		return nil
	}
	detail, err := topicDetail(ctx, admin, "bounded")
	if err != nil {
		t.Fatal(err)
	}
	leader := detail.Partitions[0].Leader
	set("1000") // the cluster's default
	a.eventually(t, "the cluster's default is in force", tooLarge)
	set("100000", leader)
	a.eventually(t, "the leader's own value is in force", func() error { return a.produce(ctx, t, "bounded", 2_000) })
	described, err := admin.DescribeBrokerConfigs(ctx, leader)
	if err != nil || described[0].Err != nil {
		t.Fatalf("%+v, %v", described, err)
	}
	i := slices.IndexFunc(described[0].Configs, func(c kadm.Config) bool { return c.Key == "message.max.bytes" })
	if i < 0 || described[0].Configs[i].MaybeValue() != "100000" || len(described[0].Configs[i].Synonyms) < 3 {
		t.Errorf("described %+v", described[0].Configs)
	}
	set("", leader)
	a.eventually(t, "the cluster's default is in force again", tooLarge)
	set("")
	a.eventually(t, "Kafka's default is in force again", func() error { return a.produce(ctx, t, "bounded", 2_000) })
}

func partitionsAreAdded(t *testing.T, a *administration) {
	ctx, admin := a.topic(t, "grown", 1)
	if answers, err := admin.ValidateUpdatePartitions(ctx, 4, "grown"); err != nil || answers["grown"].Err != nil {
		t.Fatalf("validate: %+v, %v", answers, err)
	}
	answers, err := admin.UpdatePartitions(ctx, 3, "grown", "nope")
	if err != nil || answers["grown"].Err != nil || !errors.Is(answers["nope"].Err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("%+v, %v", answers, err)
	}
	if answers, err = admin.UpdatePartitions(ctx, 2, "grown"); err != nil || !errors.Is(answers["grown"].Err, kerr.InvalidPartitions) {
		t.Fatalf("fewer: %+v, %v", answers, err)
	}
	detail, err := topicDetail(ctx, admin, "grown")
	if err != nil || len(detail.Partitions) != 3 {
		t.Fatalf("%+v, %v", detail, err)
	}
	if kcat, err := exec.LookPath("kcat"); err == nil {
		out, err := exec.CommandContext(ctx, kcat, "-b", strings.Join(a.BootstrapServers(), ","), "-L", "-t", "grown").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "with 3 partitions") {
			t.Errorf("kcat: %v\n%s", err, out)
		}
	}
}

// replicasMove moves a partition with records to brokers that have none of them, and cancels another move.
func replicasMove(t *testing.T, a *administration) {
	ctx, admin := a.topic(t, "moved", 2)
	for range 20 {
		if err := a.produce(ctx, t, "moved", 10_000); err != nil {
			t.Fatal(err)
		}
	}
	before, err := topicDetail(ctx, admin, "moved")
	if err != nil {
		t.Fatal(err)
	}
	target := missingBroker(before.Partitions[0].Replicas)
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("moved", 0, []int32{target})
	req.Assign("nope", 0, []int32{target})
	req.CancelAssign("moved", 1)
	answers, err := admin.AlterPartitionAssignments(ctx, req)
	if err != nil || answers["moved"][0].Err != nil || !errors.Is(answers["nope"][0].Err, kerr.UnknownTopicOrPartition) || !errors.Is(answers["moved"][1].Err, kerr.NoReassignmentInProgress) {
		t.Fatalf("%+v, %v", answers, err)
	}
	a.eventually(t, "the move is complete", func() error {
		running, err := admin.ListPartitionReassignments(ctx, nil)
		if err != nil || len(running) > 0 {
			return fmt.Errorf("running: %+v, %w", running, err)
		}
		after, err := topicDetail(ctx, admin, "moved")
		if err != nil || !slices.Equal(after.Partitions[0].Replicas, []int32{target}) || after.Partitions[0].Leader != target {
			return fmt.Errorf("%+v, %w", after.Partitions[0], err)
		}
		return nil
	})
	awaitFullISR(t, a.Cluster, "moved")
	ends, err := admin.ListEndOffsets(ctx, "moved")
	if err != nil {
		t.Fatal(err)
	}
	if ends["moved"][0].Offset+ends["moved"][1].Offset != 20 {
		t.Errorf("end offsets %+v after 20 records", ends["moved"])
	}
	// Without its broker a move waits, and can be taken back.
	stopped := a.BrokerNode(missingBroker(before.Partitions[1].Replicas))
	a.StopNode(stopped)
	var stuck, back kadm.AlterPartitionAssignmentsReq
	stuck.Assign("moved", 1, append(slices.Clone(before.Partitions[1].Replicas), missingBroker(before.Partitions[1].Replicas)))
	back.CancelAssign("moved", 1)
	if answers, err = admin.AlterPartitionAssignments(ctx, stuck); err != nil || answers["moved"][1].Err != nil {
		t.Fatalf("%+v, %v", answers, err)
	}
	a.eventually(t, "the tool says what the move waits for", func() error {
		if out, err := a.Skiff("reassign", "list"); err != nil || !strings.Contains(out, "is fenced") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	if answers, err = admin.AlterPartitionAssignments(ctx, back); err != nil || answers["moved"][1].Err != nil {
		t.Fatalf("%+v, %v", answers, err)
	}
	a.Restart(stopped)
	a.AwaitReady(stopped)
}

// missingBroker is the broker of four that has none of the replicas.
func missingBroker(replicas []int32) int32 {
	for id := range int32(4) {
		if !slices.Contains(replicas, id+1) {
			return id + 1
		}
	}
	return 0
}

func leadersAreElected(t *testing.T, a *administration) {
	ctx, admin := a.topic(t, "led", 1)
	detail, err := topicDetail(ctx, admin, "led")
	if err != nil {
		t.Fatal(err)
	}
	awaitFullISR(t, a.Cluster, "led")
	order := slices.Clone(detail.Partitions[0].Replicas)
	slices.Reverse(order)
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("led", 0, order)
	if answers, err := admin.AlterPartitionAssignments(ctx, req); err != nil || answers["led"][0].Err != nil {
		t.Fatalf("%+v, %v", answers, err)
	}
	asked := kadm.TopicsSet{}
	asked.Add("led", 0, 7)
	results, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, asked)
	if err != nil || results["led"][0].Err != nil || !errors.Is(results["led"][7].Err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("%+v, %v", results, err)
	}
	a.eventually(t, "the first replica leads", func() error {
		detail, err := topicDetail(ctx, admin, "led")
		if err != nil || detail.Partitions[0].Leader != order[0] {
			return fmt.Errorf("leader %d, want %d: %w", detail.Partitions[0].Leader, order[0], err)
		}
		return nil
	})
}

func restIsDescribed(t *testing.T, a *administration) {
	ctx, admin := a.topic(t, "described", 2)
	if err := a.produce(ctx, t, "described", 100); err != nil {
		t.Fatal(err)
	}
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil || len(dirs) != 4 {
		t.Fatalf("log dirs of %d brokers, %v", len(dirs), err)
	}
	replicas := 0
	dirs.Each(func(d kadm.DescribedLogDir) { replicas += len(d.Topics["described"]) })
	if replicas != 6 {
		t.Errorf("%d replicas of two partitions with three each", replicas)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(a.BootstrapServers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	q, err := quorum.RequestWith(ctx, client)
	if err != nil || q.Topics[0].Partitions[0].LeaderID < 101 || len(q.Topics[0].Partitions[0].CurrentVoters) != 3 {
		t.Errorf("quorum %+v, %v", q, err)
	}
	page := kmsg.NewPtrDescribeTopicPartitionsRequest()
	page.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "described"}}
	if p, err := page.RequestWith(ctx, client); err != nil || len(p.Topics) != 1 || len(p.Topics[0].Partitions) != 2 {
		t.Errorf("topic partitions %+v, %v", p, err)
	}
	alice := "alice"
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: &alice}}
	quotas, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1024}}}})
	if err != nil || quotas[0].Err != nil {
		t.Fatalf("quotas %+v, %v", quotas, err)
	}
	a.eventually(t, "any broker knows the quota", func() error {
		found, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &alice}})
		if err != nil || len(found) != 1 || found[0].Values[0].Value != 1024 {
			return fmt.Errorf("quotas %+v, %w", found, err)
		}
		return nil
	})
	features := kmsg.NewPtrUpdateFeaturesRequest()
	features.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "no.such.feature", MaxVersionLevel: 1, UpgradeType: 1}}
	if f, err := features.RequestWith(ctx, client); err != nil || f.ErrorCode != kerr.InvalidUpdateVersion.Code {
		t.Errorf("features %+v, %v", f, err)
	}
	unregister := kmsg.NewPtrUnregisterBrokerRequest()
	unregister.BrokerID = 99
	if u, err := unregister.RequestWith(ctx, client); err != nil || u.ErrorCode != kerr.BrokerIDNotRegistered.Code {
		t.Errorf("unregister %+v, %v", u, err)
	}
}

func saramaAdministers(t *testing.T, a *administration) {
	a.topic(t, "sarama-admin", 1)
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	admin, err := sarama.NewClusterAdmin(a.BootstrapServers(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	value := "123456"
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, "sarama-admin", map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}, false); err != nil {
		t.Error(err)
	}
	a.eventually(t, "any broker knows the config", func() error {
		described, err := admin.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: "sarama-admin", ConfigNames: []string{"retention.ms"}}}, sarama.DescribeConfigsOptions{})
		if err != nil {
			return err
		}
		if len(described) != 1 || len(described[0].Configs) != 1 || described[0].Configs[0].Value != value {
			return fmt.Errorf("%d resources, the first is %+v", len(described), described[0])
		}
		return nil
	})
	if err := admin.AlterConfig(sarama.TopicResource, "sarama-admin", map[string]*string{"retention.bytes": &value}, false); err != nil {
		t.Error(err)
	}
	if err := admin.CreatePartitions("sarama-admin", 2, nil, false); err != nil {
		t.Error(err)
	}
	if err := admin.CreatePartitions("sarama-admin", 2, nil, false); !errors.Is(err, sarama.ErrInvalidPartitions) {
		t.Errorf("as many again: %v", err)
	}
	if err := admin.AlterPartitionReassignments("sarama-admin", [][]int32{{1, 2, 3}, {2, 3, 4}}); err != nil {
		t.Error(err)
	}
	a.eventually(t, "sarama's moves are complete", func() error {
		running, err := admin.ListPartitionReassignments("sarama-admin", []int32{0, 1})
		if err != nil || len(running["sarama-admin"]) > 0 {
			return fmt.Errorf("running %+v, %w", running, err)
		}
		return nil
	})
	if _, err := admin.DescribeLogDirs([]int32{1, 2, 3, 4}); err != nil {
		t.Error(err)
	}
	if _, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{"sarama-admin": {0, 1}}); err != nil {
		t.Error(err)
	}
	user := sarama.QuotaEntityComponent{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "sarama"}
	if err := admin.AlterClientQuotas([]sarama.QuotaEntityComponent{user}, sarama.ClientQuotasOp{Key: "consumer_byte_rate", Value: 2048}, false); err != nil {
		t.Error(err)
	}
	a.AwaitAgreement(patience)
	quotas, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "sarama"}}, true)
	if err != nil || len(quotas) != 1 || quotas[0].Values["consumer_byte_rate"] != 2048 {
		t.Errorf("quotas %+v, %v", quotas, err)
	}
}

// rehearsal is what `--dry-run -o json` prints, as far as it is looked at.
type rehearsal struct {
	MetadataOffset int64 `json:"metadata_offset"`
	Records        []struct{ Record string }
	Partitions     []struct {
		Partition int32
		After     struct{ Replicas []int32 }
	}
}

// rehearsalIsKept: the topic that a rehearsal showed is the one that is created, although another tool creates it over
// another protocol. Quorum nodes that register meanwhile change what is decided on, so that a rehearsal is made again
// until nothing came in between.
func rehearsalIsKept(t *testing.T, a *administration) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin := a.admin(t)
	attempt := 0
	a.eventually(t, "a rehearsal is followed by nothing but its request", func() error {
		attempt++
		name := fmt.Sprint("rehearsed-", attempt)
		view := rehearseCreate(t, a, name)
		before := a.AwaitAgreement(patience)
		createTopic(t, a.Cluster, name, 5, 3)
		awaitVisible(t, a.Cluster, name)
		after := a.AwaitAgreement(patience)
		const answer = 1 // the record of what the request was answered, which a rehearsal does not have
		if before.MetadataOffset != view.MetadataOffset || after.MetadataOffset != view.MetadataOffset+int64(len(view.Records))+answer {
			return fmt.Errorf("rehearsed at %d, created from %d to %d", view.MetadataOffset, before.MetadataOffset, after.MetadataOffset)
		}
		detail, err := topicDetail(ctx, admin, name)
		if err != nil {
			return err
		}
		for _, p := range view.Partitions {
			if got := detail.Partitions[p.Partition].Replicas; !slices.Equal(got, p.After.Replicas) {
				t.Errorf("partition %d is on %v, the rehearsal said %v", p.Partition, got, p.After.Replicas)
			}
		}
		return nil
	})
	out, err := a.Skiff("topic", "delete", "rehearsed-1", "--dry-run")
	if err != nil || !strings.Contains(out, "cannot be undone") || !strings.Contains(out, "topic rehearsed-1 is deleted with its 5 partitions") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := topicDetail(ctx, admin, "rehearsed-1"); err != nil {
		t.Errorf("a rehearsal deleted the topic: %v", err)
	}
}

func rehearseCreate(t *testing.T, a *administration, name string) (view rehearsal) {
	t.Helper()
	out, err := a.Skiff("topic", "create", name, "--partitions", "5", "--replication-factor", "3", "--dry-run", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.Partitions) != 5 || len(view.Records) != 6 {
		t.Fatalf("%v\n%s", err, out)
	}
	return view
}

// planIsApplied empties broker 4 and lets the plan be rehearsed, applied and completed.
func planIsApplied(t *testing.T, a *administration) {
	ctx, admin := a.topic(t, "planned", 8)
	a.AwaitAgreement(patience) // any quorum node may be asked
	plan, err := a.Skiff("reassign", "plan", "--topic", "planned", "--exclude-broker", "4", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := a.Skiff("reassign", "apply", file, "--dry-run"); err != nil || !strings.Contains(out, "adding") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := a.Skiff("reassign", "apply", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a.eventually(t, "broker 4 is empty of the topic", func() error {
		detail, err := topicDetail(ctx, admin, "planned")
		if err != nil {
			return err
		}
		for _, p := range detail.Partitions {
			if slices.Contains(p.Replicas, 4) {
				return fmt.Errorf("partition %d is on %v", p.Partition, p.Replicas)
			}
		}
		return nil
	})
	for _, args := range [][]string{
		{"reassign", "list"}, {"elect", "--preferred"}, {"feature", "list"}, {"config", "get", "topic", "planned"}, {"config", "get", "cluster"},
		{"config", "set", "topic", "planned", "retention.ms=1000", "--dry-run"}, {"config", "set", "topic", "planned", "retention.ms=1000"},
		{"config", "unset", "topic", "planned", "retention.ms"}, {"topic", "alter", "planned", "--partitions", "9", "--dry-run"},
		{"topic", "alter", "planned", "--partitions", "9", "--config", "segment.bytes=2000000"},
		{"feature", "upgrade", "eligible.leader.replicas.version=1", "--dry-run"}, {"broker", "unregister", "4", "--dry-run"},
	} {
		if out, err := a.Skiff(args...); err != nil {
			t.Errorf("skiff %v: %v\n%s", args, err, out)
		}
	}
}
