package endtoend

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
)

// lossMax is what the loss of a broker may take on a machine that does other things besides. The log has what it took.
const lossMax = 10 * time.Second

// TestAKilledBrokerLosesItsLeaderships kills each broker in turn. Every partition that it led has a live leader in the
// metadata of every other broker soon after.
func TestAKilledBrokerLosesItsLeaderships(t *testing.T) {
	const topic, partitions = "led", 12
	cluster := proctest.Start(t, proctest.Options{})
	createTopic(t, cluster, topic, partitions, 3)
	views := viewsOfBrokers(t, cluster)
	for _, victim := range cluster.Nodes() {
		if victim.Role != up.Broker {
			continue
		}
		led := awaitLeaderships(t, views, topic, victim.ID)
		killed := time.Now()
		cluster.Kill(victim.Name)
		for id, view := range views {
			if id == victim.ID {
				continue
			}
			proctest.Eventually(t, lossMax, fmt.Sprintf("broker %d knows leaders for what %s led", id, victim.Name), func() error {
				return notLedBy(t, view, topic, victim.ID)
			})
		}
		t.Logf("%s led %d of %d partitions; every other broker knew their next leaders %s after the kill",
			victim.Name, led, partitions, time.Since(killed).Round(time.Millisecond))
		cluster.Restart(victim.Name)
		awaitFullISR(t, cluster, topic)
	}
}

// viewsOfBrokers are the brokers' own metadata, by broker id.
func viewsOfBrokers(t *testing.T, cluster *proctest.Cluster) map[int32]*verify.View {
	t.Helper()
	views := map[int32]*verify.View{}
	for _, n := range cluster.Nodes() {
		if n.Role != up.Broker {
			continue
		}
		view, err := verify.NewView(n.Addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(view.Close)
		views[n.ID] = view
	}
	return views
}

// awaitLeaderships waits until every broker knows the topic, and returns how many partitions a broker leads.
func awaitLeaderships(t *testing.T, views map[int32]*verify.View, topic string, broker int32) (led int) {
	t.Helper()
	proctest.Eventually(t, patience, "every broker knows all leaders of "+topic, func() error {
		for id, view := range views {
			leaders, err := leadersOf(t, view, topic)
			if err != nil {
				return fmt.Errorf("broker %d: %w", id, err)
			}
			led = 0
			for _, leader := range leaders {
				if leader == broker {
					led++
				}
			}
		}
		return nil
	})
	return led
}

func notLedBy(t *testing.T, view *verify.View, topic string, broker int32) error {
	t.Helper()
	leaders, err := leadersOf(t, view, topic)
	if err != nil {
		return err
	}
	for partition, leader := range leaders {
		if leader == broker {
			return fmt.Errorf("partition %d is led by %d", partition, leader)
		}
	}
	return nil
}

// leadersOf are the leaders of a topic by partition; a partition without one is an error.
func leadersOf(t *testing.T, view *verify.View, topic string) (map[int32]int32, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	detail, err := view.Topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	leaders := map[int32]int32{}
	for _, p := range detail.Partitions {
		if p.ErrorCode != 0 || p.Leader < 0 {
			return nil, fmt.Errorf("partition %d: leader %d, error %d", p.Partition, p.Leader, p.ErrorCode)
		}
		leaders[p.Partition] = p.Leader
	}
	return leaders, nil
}
