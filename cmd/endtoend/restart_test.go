package endtoend

import (
	"context"
	"testing"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/verify"
)

func TestAClusterThatIsStoppedContinuesWithTheSameTopicsAndRecords(t *testing.T) {
	t.Parallel()
	continues(t, (*proctest.Cluster).Stop)
}

func TestAClusterWhoseProcessesAreAllKilledAtOnceContinuesWithTheSameTopicsAndRecords(t *testing.T) {
	t.Parallel()
	continues(t, (*proctest.Cluster).CrashAll)
}

// continues produces, ends the cluster, starts it on its data and finds everything again.
func continues(t *testing.T, end func(*proctest.Cluster)) {
	cluster := proctest.Start(t, proctest.Options{})
	created := createTopic(t, cluster, "kept", 6, 3)
	producer, err := verify.NewProducer(verify.ProducerOptions{Seeds: cluster.BootstrapServers(), Topic: "kept", InFlight: 256, ValueBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := producer.Send(ctx, 5000); err != nil {
		t.Fatal(err)
	}
	before := cluster.AwaitAgreement(patience)
	controllers := cluster.Controllers()

	end(cluster)
	cluster.Start()

	awaitFullISR(t, cluster, "kept")
	detail, err := topicDetail(ctx, adminClient(t, cluster.BootstrapServers()...), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if len(detail.Partitions) != 6 {
		t.Errorf("%d partitions, want 6", len(detail.Partitions))
	}
	if detail.ID != created {
		t.Errorf("the topic has id %v, and was created with %v", detail.ID, created)
	}
	checkKept(t, cluster, "kept", producer.Acked())
	after := cluster.AwaitAgreement(patience)
	if after.ClusterID != before.ClusterID || after.Lineage != before.Lineage {
		t.Errorf("cluster %s lineage %v, before %s %v", after.ClusterID, after.Lineage, before.ClusterID, before.Lineage)
	}
	if after.MetadataOffset <= before.MetadataOffset || after.ControllerEpoch <= before.ControllerEpoch {
		t.Errorf("metadata offset %d and controller epoch %d did not grow from %d and %d", after.MetadataOffset, after.ControllerEpoch,
			before.MetadataOffset, before.ControllerEpoch)
	}
	if got := cluster.Controllers(); len(got) != 3 || got[0] != controllers[0] {
		t.Errorf("controllers are at %v now, at %v before", got, controllers)
	}
}
