package kafka

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/brokerd/wire"
	"github.com/skiffmq/skiff/fsm"
)

// instantReplicas takes and gives without doing anything, so that what is measured is the protocol.
type instantReplicas struct {
	*fakeReplicas
	records []byte
}

func (r *instantReplicas) Append(id fsm.PartitionID, _ []byte, _ replica.AppendOptions) (replica.Appended, error) {
	return replica.Appended{ID: id, LogAppendTimeMs: -1}, nil
}

func (r *instantReplicas) Fetch(_ context.Context, req replica.FetchRequest) []replica.FetchResult {
	return []replica.FetchResult{{ID: req.Partitions[0].ID, Records: r.records}}
}

// overLoopback runs f with a connection over TCP to a server that has r for replicas.
func overLoopback(b *testing.B, r *instantReplicas, req kmsg.Request, version int16) {
	b.Helper()
	r.fakeReplicas = newFakeReplicas()
	ts := newTestServer(b, func(c *Config) { c.Replicas = r })
	nc, err := net.Dial("tcp", ts.listen(b))
	if err != nil {
		b.Fatal(err)
	}
	c := wire.NewConn(nc, wire.Options{})
	defer c.Close()
	req.SetVersion(version)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Request(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApiVersions(b *testing.B) {
	overLoopback(b, &instantReplicas{}, kmsg.NewPtrApiVersionsRequest(), 0)
}

func BenchmarkProduce(b *testing.B) {
	for name, n := range map[string]int{"1KiB": 1 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			batch := batchOf(b, recordbatch.BuildOptions{}, strings.Repeat("v", n))
			b.SetBytes(int64(len(batch)))
			overLoopback(b, &instantReplicas{}, produceTo("foo", 0, 1, batch), 9)
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for name, n := range map[string]int{"1KiB": 1 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(n))
			overLoopback(b, &instantReplicas{records: make([]byte, n)}, fetchOf("foo", 7, 0, 0), 12)
		})
	}
}
