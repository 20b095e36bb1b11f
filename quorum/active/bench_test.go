package active

import (
	"fmt"
	"testing"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// BenchmarkRequest is what one request costs when some share an entry: decide, fold into the tip, encode, fold into the
// image and answer.
func BenchmarkRequest(b *testing.B) {
	set := func(img *fsm.Image, env *controller.Env, key string) controller.Decision[string] {
		return controller.Decision[string]{Batches: []*metadatav1.Batch{setBatch(img, env, key)}}
	}
	for _, share := range []int{1, 100} {
		b.Run(fmt.Sprintf("share=%d", share), func(b *testing.B) {
			n := newNode(b)
			n.claimed(1)
			b.ReportAllocs()
			for i := 0; i < b.N; i += share {
				events := make([]Event, share)
				for j := range events {
					events[j] = Submitted{NewOp(set, "k", nil, fsm.UUID{})}
				}
				n.step(events...)
				n.commit(n.takeProposal())
				clear(n.answers)
			}
		})
	}
}
