package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// bufferBytesMin is the capacity of a new buffer.
	bufferBytesMin = 4 << 10
	// bufferBytesKept is the largest buffer that is kept for the next answer.
	bufferBytesKept = 4 << 20
)

// buffers are where answers are encoded. They are shared by all connections, so that idle ones hold none.
type buffers struct {
	pool sync.Pool
}

// get returns an empty buffer with room for hint bytes.
func (b *buffers) get(hint int) []byte {
	if p, ok := b.pool.Get().(*[]byte); ok && cap(*p) >= hint {
		return (*p)[:0]
	}
	return make([]byte, 0, max(hint, bufferBytesMin))
}

// put takes a buffer back. Nothing may refer to it any more.
func (b *buffers) put(buf []byte) {
	if cap(buf) <= bufferBytesKept {
		b.pool.Put(&buf)
	}
}

// sizeHint returns roughly how many bytes resp takes, where it pays: an answer full of records would otherwise be copied
// again each time its buffer grows.
func sizeHint(resp kmsg.Response) int {
	fetched, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return 0
	}
	const perPartition, perTopic = 128, 64
	n := 0
	for i := range fetched.Topics {
		n += perTopic + len(fetched.Topics[i].Topic)
		for j := range fetched.Topics[i].Partitions {
			n += perPartition + len(fetched.Topics[i].Partitions[j].RecordBatches)
		}
	}
	return n
}
