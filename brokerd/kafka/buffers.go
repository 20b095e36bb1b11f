package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// bufferClasses are the capacities of the buffers that are kept for the next use. What does not fit the last is made and
// dropped.
var bufferClasses = [...]int{4 << 10, 64 << 10, 1 << 20, 4 << 20}

// buffers hold requests and answers while they pass. They are shared by all connections, so that idle ones hold none.
type buffers struct {
	pools [len(bufferClasses)]sync.Pool
}

// get returns an empty buffer with room for n bytes.
func (b *buffers) get(n int) []byte {
	for i, class := range bufferClasses {
		if n <= class {
			if kept, ok := b.pools[i].Get().(*[]byte); ok {
				return (*kept)[:0]
			}
			return make([]byte, 0, class)
		}
	}
	return make([]byte, 0, n)
}

// put takes a buffer back, if it is one of get's or by chance as large. Nothing may refer to it any more.
func (b *buffers) put(buf []byte) {
	for i, class := range bufferClasses {
		if cap(buf) == class {
			b.pools[i].Put(&buf)
			return
		}
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
