package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
)

// Produce, key 0, versions 3 to 9.
//
// Versions 0 to 2 are advertised and end the connection, exactly as in Kafka 4: librdkafka before 2.11 looks for them in the
// table before it compresses, and never sends them. acks is 0, 1 or -1, anything else is INVALID_REQUIRED_ACKS. Each
// partition carries exactly one record batch, or INVALID_RECORD; zstd below version 7 is UNSUPPORTED_COMPRESSION_TYPE. Errors
// are per partition. acks=0 has no answer, so an error with it ends the connection, which makes the client look at its
// metadata again.
//
// Idempotent producers are served. Transactional ones are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every
// client treats as final.
//
// Left out: topic ids (version 13), leader hints (version 10), ErrorRecords (the position of a bad record in its batch).
var produceAPI = api{
	key:            0,
	advertised:     versions(0, 9),
	served:         versions(3, 9),
	carriesRecords: true,
	handle:         handled((*Server).produce),
}

// transactionsRefused is what transactional requests are told where the answer has room for a message.
const transactionsRefused = "this cluster does not support transactions"

// adminClientID is the client id that may write to internal topics, as in Kafka.
const adminClientID = "__admin_client"

// produced is one partition of a Produce request, and its entry in the answer.
type produced struct {
	topic   string
	records []byte
	out     *kmsg.ProduceResponseTopicPartition
	// appended is set when the records are in the log.
	appended *replica.Appended
}

// produce appends, and with acks=-1 waits for the ISR.
func (s *Server) produce(ctx context.Context, c *call, req *kmsg.ProduceRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.ProduceResponse](req)
	partitions := produceAnswer(req, resp)
	if code, message := checkProduce(req); code != 0 {
		for _, p := range partitions {
			p.fail(code, message)
		}
	} else {
		for _, p := range partitions {
			s.appendOne(img, c, req, p)
		}
	}
	if req.Acks == replica.AcksAll {
		s.awaitReplicated(ctx, partitions, req.TimeoutMillis)
	}
	if req.Acks == replica.AcksNone {
		return nil, firstFailure(partitions)
	}
	return resp, nil
}

// produceAnswer fills resp with an entry for each partition of req, and returns them side by side.
func produceAnswer(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) []*produced {
	var all []*produced
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	for i, t := range req.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for j, p := range t.Partitions {
			out.Partitions[j] = kmsg.NewProduceResponseTopicPartition()
			out.Partitions[j].Partition = p.Partition
			all = append(all, &produced{topic: t.Topic, records: p.Records, out: &out.Partitions[j]})
		}
		resp.Topics[i] = out
	}
	return all
}

// checkProduce says what is wrong with the request as a whole.
func checkProduce(req *kmsg.ProduceRequest) (code int16, message string) {
	switch {
	case req.Acks != replica.AcksNone && req.Acks != replica.AcksLeader && req.Acks != replica.AcksAll:
		return kerr.InvalidRequiredAcks.Code, fmt.Sprintf("acks is %d, it can be 0, 1 or -1", req.Acks)
	case req.TransactionID != nil:
		return kerr.TransactionalIDAuthorizationFailed.Code, transactionsRefused
	default:
		return 0, ""
	}
}

// appendOne appends the records of one partition, or says why not.
func (s *Server) appendOne(img *fsm.Image, c *call, req *kmsg.ProduceRequest, p *produced) {
	id, code := partitionByName(img, p.topic, p.out.Partition)
	if code != 0 {
		p.fail(code, "")
		return
	}
	if isInternalTopic(p.topic) && c.header.ClientID != adminClientID {
		p.fail(kerr.InvalidTopicException.Code, "clients do not write to internal topics")
		return
	}
	if code, message := checkRecords(p.records, req.Version); code != 0 {
		p.fail(code, message)
		return
	}
	appended, err := s.config.Replicas.Append(id, p.records, replica.AppendOptions{Acks: req.Acks, LeaderEpoch: -1})
	if err != nil {
		p.fail(s.code(err), err.Error())
		return
	}
	p.appended = &appended
	p.out.BaseOffset = appended.BaseOffset
	p.out.LogAppendTime = appended.LogAppendTimeMs
	p.out.LogStartOffset = appended.LogStartOffset
}

// checkRecords judges what depends on the version of the request; the rest is the partition's to judge.
func checkRecords(records []byte, version int16) (code int16, message string) {
	h, err := recordbatch.Parse(records)
	switch {
	case len(records) == 0:
		return kerr.InvalidRecord.Code, "no record batch"
	case err != nil:
		code, _ := codeOf(err)
		return code, err.Error()
	case h.Size() < int64(len(records)):
		return kerr.InvalidRecord.Code, "more than one record batch"
	case h.IsTransactional():
		return kerr.TransactionalIDAuthorizationFailed.Code, transactionsRefused
	case h.Codec() == recordbatch.CodecZstd && version < zstdProduceVersion:
		return kerr.UnsupportedCompressionType.Code, fmt.Sprintf("zstd needs version %d of Produce", zstdProduceVersion)
	default:
		return 0, ""
	}
}

// zstdProduceVersion is the first version of Produce whose clients know zstd (KIP-110).
const zstdProduceVersion = 7

// awaitReplicated waits until the ISR has what was appended, at most for the request's timeout.
func (s *Server) awaitReplicated(ctx context.Context, partitions []*produced, timeoutMillis int32) {
	var waiting []*produced
	var appended []replica.Appended
	for _, p := range partitions {
		if p.appended != nil {
			waiting = append(waiting, p)
			appended = append(appended, *p.appended)
		}
	}
	if len(waiting) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(timeoutMillis, 0))*time.Millisecond)
	defer cancel()
	for i, err := range s.config.Replicas.AwaitReplicated(ctx, appended) {
		if err != nil { // the offsets stay in the answer, as in Kafka: the records are in the log
			waiting[i].out.ErrorCode, waiting[i].out.ErrorMessage = s.code(err), messageOf(err.Error())
		}
	}
}

// fail writes an error into the answer.
func (p *produced) fail(code int16, message string) {
	p.out.ErrorCode, p.out.ErrorMessage = code, messageOf(message)
	p.out.BaseOffset, p.out.LogAppendTime, p.out.LogStartOffset = -1, -1, -1
}

// errProduceUnanswered closes the connection of a producer that wants no answers and must learn of an error.
var errProduceUnanswered = errors.New("a Produce request with acks=0 failed")

// firstFailure returns an error that tells of the first partition that failed.
func firstFailure(partitions []*produced) error {
	for _, p := range partitions {
		if code := p.out.ErrorCode; code != 0 {
			return fmt.Errorf("%w: %s-%d: %w", errProduceUnanswered, p.topic, p.out.Partition, kerr.ErrorForCode(code))
		}
	}
	return nil
}
