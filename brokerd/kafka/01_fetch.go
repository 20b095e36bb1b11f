package kafka

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/brokerd/wire"
	"github.com/skiffmq/skiff/fsm"
)

// Fetch, key 1, versions 4 to 17, of which 4 to 12 are advertised.
//
// Records are whole batches from the one that holds the offset on, up to the high watermark for clients. The request parks until
// MinBytes are there, MaxWaitMillis have passed, a partition has an error, the client goes away or the server drains.
//
// There are no fetch sessions: every answer says session 0, which clients take as "none", and a request that claims to go on
// with a session is FETCH_SESSION_ID_NOT_FOUND, so that it starts anew.
//
// Versions 13 and above name topics by id and are what brokers use among themselves (wire.ReplicaFetchVersion). A follower says
// who it is in ReplicaState, with its broker epoch, from version 15 on. A request below that which claims to be a follower
// is INVALID_REQUEST: without a broker epoch a stale follower could raise the high watermark (I19). Kafka accepts it.
//
// Batches of zstd below version 10 are UNSUPPORTED_COMPRESSION_TYPE. KAFKA_STORAGE_ERROR is NOT_LEADER_OR_FOLLOWER below
// version 6, which does not know it.
//
// Left out: sessions (KIP-227), reading from followers (KIP-392), node endpoints (KIP-951).
var fetchAPI = api{
	key:        1,
	advertised: versions(4, 12),
	served:     versions(4, wire.ReplicaFetchVersion),
	opens:      true, // a follower of many partitions does not negotiate first
	handle:     handled((*Server).fetch),
}

const (
	// topicIDFetchVersion is the first version that names topics by id.
	topicIDFetchVersion = 13
	// replicaStateVersion is the first version in which a follower can send its broker epoch (KIP-903).
	replicaStateVersion = 15
	// currentLeaderVersion is the first version whose answers say who leads instead (KIP-951).
	currentLeaderVersion = 16
	// zstdFetchVersion is the first version of Fetch whose clients know zstd (KIP-110).
	zstdFetchVersion = 10
	// storageErrorVersion is the first version that knows KAFKA_STORAGE_ERROR.
	storageErrorVersion = 6
)

// fetch reads records, and waits for them.
func (s *Server) fetch(ctx context.Context, _ *call, req *kmsg.FetchRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.FetchResponse](req)
	resp.Topics = []kmsg.FetchResponseTopic{}
	if req.SessionEpoch > 0 {
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		return resp, nil
	}
	slots := fetchAnswer(req, resp)
	ask, asked := s.fetchRequest(img, req, slots)
	if !followerIsKnown(req, ask) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		for i := range slots {
			slots[i].out.ErrorCode = kerr.InvalidRequest.Code
		}
		return resp, nil
	}
	if len(asked) == 0 {
		return resp, nil
	}
	ctx, cancel := s.untilDraining(ctx)
	defer cancel()
	for i, result := range s.config.Replicas.Fetch(ctx, ask) {
		s.fillFetched(asked[i].out, result, req.Version)
	}
	return resp, nil
}

// fetchSlot is one partition of a Fetch request, and its entry in the answer.
type fetchSlot struct {
	topic *kmsg.FetchRequestTopic
	in    *kmsg.FetchRequestTopicPartition
	out   *kmsg.FetchResponseTopicPartition
}

// fetchAnswer fills resp with an entry for each partition of req, and returns them side by side.
func fetchAnswer(req *kmsg.FetchRequest, resp *kmsg.FetchResponse) []fetchSlot {
	var slots []fetchSlot
	resp.Topics = make([]kmsg.FetchResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewFetchResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.Partitions = make([]kmsg.FetchResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			out.Partitions[j] = newFetched(t.Partitions[j].Partition, req.IsolationLevel)
			slots = append(slots, fetchSlot{topic: t, in: &t.Partitions[j], out: &out.Partitions[j]})
		}
		resp.Topics[i] = out
	}
	return slots
}

// newFetched returns an answer without records. They are empty, not null: librdkafka takes a length of -1 for a broken answer.
func newFetched(partition int32, isolation int8) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = partition
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = -1, -1, -1
	p.RecordBatches = []byte{}
	if isolation != 0 {
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	return p
}

// fetchRequest translates what can be asked of the replicas, and returns the slots in the same order. Partitions that do not
// exist get their error at once.
func (s *Server) fetchRequest(img *fsm.Image, req *kmsg.FetchRequest, slots []fetchSlot) (replica.FetchRequest, []fetchSlot) {
	maxBytes := clamp(req.MaxBytes, s.limits.FetchBytesMax)
	ask := replica.FetchRequest{
		ReplicaID:     req.ReplicaID,
		ReplicaEpoch:  -1,
		MaxWait:       time.Duration(max(req.MaxWaitMillis, 0)) * time.Millisecond,
		MinBytes:      clamp(req.MinBytes, maxBytes),
		MaxBytes:      maxBytes,
		ReadCommitted: req.IsolationLevel == 1,
	}
	if req.Version >= replicaStateVersion {
		ask.ReplicaID, ask.ReplicaEpoch = req.ReplicaState.ID, req.ReplicaState.Epoch
	}
	if ask.ReplicaID < 0 {
		ask.ReplicaID = replica.ConsumerReplicaID // Kafka's debugging consumer (-2) reads as any other
	}
	var asked []fetchSlot
	for _, slot := range slots {
		id, code := slot.find(img, req.Version)
		if code != 0 {
			slot.out.ErrorCode = code
			ask.MaxWait = 0 // an error is news: a follower that is ahead of our metadata asks again in a moment
			continue
		}
		asked = append(asked, slot)
		ask.Partitions = append(ask.Partitions, replica.FetchPartition{
			ID:                 id,
			Offset:             slot.in.FetchOffset,
			LogStartOffset:     slot.in.LogStartOffset,
			CurrentLeaderEpoch: slot.in.CurrentLeaderEpoch,
			LastFetchedEpoch:   slot.in.LastFetchedEpoch,
			MaxBytes:           clamp(slot.in.PartitionMaxBytes, maxBytes),
		})
	}
	return ask, asked
}

// find looks the partition up by what the version names it by.
func (f fetchSlot) find(img *fsm.Image, version int16) (fsm.PartitionID, int16) {
	if version >= topicIDFetchVersion {
		return partitionByID(img, f.topic.TopicID, f.in.Partition)
	}
	return partitionByName(img, f.topic.Topic, f.in.Partition)
}

// followerIsKnown tells whether the sender is a client, or a follower that says which incarnation it is.
func followerIsKnown(req *kmsg.FetchRequest, ask replica.FetchRequest) bool {
	return ask.ReplicaID < 0 || req.Version >= replicaStateVersion && ask.ReplicaEpoch >= 0
}

// fillFetched writes what was read into the answer.
func (s *Server) fillFetched(out *kmsg.FetchResponseTopicPartition, r replica.FetchResult, version int16) {
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = r.HighWatermark, r.LastStableOffset, r.LogStartOffset
	if r.Err != nil {
		out.ErrorCode = fetchCode(s.code(r.Err), version)
		if version >= currentLeaderVersion && namesLeader(out.ErrorCode) {
			out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = r.LeaderID, r.LeaderEpoch
		}
		return
	}
	if r.Diverging != nil {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = r.Diverging.Epoch, r.Diverging.EndOffset
		return
	}
	if version < zstdFetchVersion && holdsZstd(r.Records) {
		out.ErrorCode = kerr.UnsupportedCompressionType.Code
		return
	}
	if len(r.Records) > 0 {
		out.RecordBatches = r.Records
	}
}

// fetchCode replaces a code that the version does not know.
func fetchCode(code, version int16) int16 {
	if code == kerr.KafkaStorageError.Code && version < storageErrorVersion {
		return kerr.NotLeaderForPartition.Code
	}
	return code
}

// namesLeader tells whether an error is one that the current leader goes with.
func namesLeader(code int16) bool {
	return code == kerr.NotLeaderForPartition.Code || code == kerr.FencedLeaderEpoch.Code
}

// holdsZstd tells whether any of the batches is compressed with zstd.
func holdsZstd(batches []byte) bool {
	for len(batches) > 0 {
		h, err := recordbatch.Parse(batches)
		if err != nil || h.Size() > int64(len(batches)) {
			return false // the client checks what it reads
		}
		if h.Codec() == recordbatch.CodecZstd {
			return true
		}
		batches = batches[h.Size():]
	}
	return false
}

// untilDraining returns ctx, ended when the server begins to stop: what waits for news answers with what there is.
func (s *Server) untilDraining(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// clamp brings a number of bytes that a client chose into 0..limit.
func clamp(n int32, limit int) int {
	return min(max(int(n), 0), limit, math.MaxInt32)
}
