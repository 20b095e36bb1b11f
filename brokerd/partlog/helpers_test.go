package partlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
)

const dir = "/data/topic-0"

// everything is more than any log of these tests holds.
const everything = 1 << 30

var topicID = [16]byte{1, 2, 3}

// clock starts late enough for timestamps before it.
var clock = time.UnixMilli(1_700_000_000_000)

// fatalf is what the helpers need of a test.
type fatalf interface {
	Helper()
	Fatalf(format string, args ...any)
}

func options(fsys partlog.FS) partlog.Options {
	return partlog.Options{
		FS: fsys, TopicID: topicID, Partition: 7, Files: partlog.NewFileBudget(8),
		Now:        func() time.Time { return clock },
		Timestamps: recordbatch.Timestamps(1 << 20),
	}
}

func mustOpen(t fatalf, opts partlog.Options) *partlog.Log {
	t.Helper()
	l, err := partlog.Open(dir, opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

// batchOf builds a batch of n records whose values are valueBytes long, the
// first of time ts.
func batchOf(t fatalf, n, valueBytes int, ts int64, producer *recordbatch.Producer) []byte {
	t.Helper()
	records := make([]recordbatch.Record, n)
	for i := range records {
		value := bytes.Repeat([]byte{byte('a' + i%26)}, valueBytes)
		records[i] = recordbatch.Record{TimestampMs: ts + int64(i), Value: value}
	}
	b, err := recordbatch.Build(records, recordbatch.BuildOptions{Producer: producer})
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return b
}

// stamped returns the batch as a leader would have stored it.
func stamped(batch []byte, offset int64, leaderEpoch int32) []byte {
	batch = bytes.Clone(batch)
	binary.BigEndian.PutUint64(batch, uint64(offset))
	binary.BigEndian.PutUint32(batch[12:], uint32(leaderEpoch))
	return batch
}

func mustAppend(t fatalf, l *partlog.Log, batch []byte, leaderEpoch int32) partlog.AppendInfo {
	t.Helper()
	info, err := l.Append(batch, leaderEpoch, partlog.AppendOptions{LogAppendTimeMs: -1})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return info
}

// readAll reads the log from its start as a fetcher would and returns its
// batches.
func readAll(t fatalf, l *partlog.Log) [][]byte {
	t.Helper()
	batches, err := tryReadAll(l)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return batches
}

func tryReadAll(l *partlog.Log) ([][]byte, error) {
	var batches [][]byte
	for offset := l.StartOffset(); offset < l.EndOffset(); {
		info, err := l.Read(offset, 300, math.MaxInt64, true)
		if err != nil {
			return batches, fmt.Errorf("at %d: %w", offset, err)
		}
		if len(info.Records) == 0 || info.NextOffset <= offset || info.FirstOffset > offset {
			return batches, fmt.Errorf("at %d of %d: got %d bytes from %d to %d", offset, l.EndOffset(), len(info.Records), info.FirstOffset, info.NextOffset)
		}
		for batch, err := range recordbatch.Split(info.Records) {
			if err != nil {
				return batches, err
			}
			batches = append(batches, batch)
		}
		offset = info.NextOffset
	}
	return batches, nil
}

// firstOf returns the base offset of a batch, lastOf its last offset.
func firstOf(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch)) }
func lastOf(batch []byte) int64 {
	return firstOf(batch) + int64(int32(binary.BigEndian.Uint32(batch[23:])))
}

func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got error %v, want %v", got, want)
	}
}

func equalBatches(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// describe lists the offsets of batches, for messages.
func describe(batches [][]byte) string {
	out := ""
	for _, b := range batches {
		out += fmt.Sprintf("[%d-%d@%d]", firstOf(b), lastOf(b), int32(binary.BigEndian.Uint32(b[12:])))
	}
	return out
}

func newDisk() *partlogtest.CrashFS { return partlogtest.New() }
