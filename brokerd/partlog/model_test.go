package partlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
)

// model is the dumb log: a list of batches.
type model struct {
	batches    [][]byte
	start, end int64
	// epochs is the leader epoch of each offset from first on.
	first  int64
	epochs []int32
	// sent are the batches of the present producer, oldest first; a new
	// producer begins when it is no longer certain what the log knows of it.
	producer int64
	sent     []sentBatch
}

type sentBatch struct {
	bytes      []byte
	base, last int64
	sequence   int32
	records    int32
}

func (m *model) add(batch []byte) {
	m.batches = append(m.batches, batch)
	epoch := int32(binary.BigEndian.Uint32(batch[12:]))
	for range lastOf(batch) - firstOf(batch) + 1 {
		m.epochs = append(m.epochs, epoch)
	}
	m.end = lastOf(batch) + 1
}

// visible are the batches that hold an offset at or above start.
func (m *model) visible() [][]byte {
	var out [][]byte
	for _, b := range m.batches {
		if lastOf(b) >= m.start {
			out = append(out, b)
		}
	}
	return out
}

func (m *model) newProducer() { m.producer, m.sent = m.producer+1, nil }

func (m *model) latestEpoch() int32 {
	if len(m.epochs) == 0 {
		return 0
	}
	return m.epochs[len(m.epochs)-1]
}

// endOffsetFor walks the offsets one by one.
func (m *model) endOffsetFor(epoch int32) (int32, int64) {
	known, end := int32(-1), int64(-1)
	for offset := m.start; offset < m.end; offset++ {
		if e := m.epochs[offset-m.first]; e <= epoch {
			known, end = e, offset+1
		}
	}
	switch {
	case epoch < 0 || epoch > m.latestEpoch():
		return -1, -1
	case known < 0:
		return epoch, m.start
	}
	return known, end
}

// machine drives a log and its model.
type machine struct {
	t     *rapid.T
	disk  *partlogtest.CrashFS
	opts  partlog.Options
	log   *partlog.Log
	model model
}

func (mc *machine) record(n int) []byte {
	ts := clock.UnixMilli() - rapid.Int64Range(0, 500).Draw(mc.t, "age")
	return batchOf(mc.t, n, rapid.IntRange(0, 60).Draw(mc.t, "value bytes"), ts, nil)
}

func (mc *machine) epoch() int32 {
	return mc.model.latestEpoch() + int32(rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(mc.t, "epoch"))
}

func (mc *machine) Append(t *rapid.T) {
	batch, epoch := mc.record(rapid.IntRange(1, 4).Draw(t, "records")), mc.epoch()
	info := mustAppend(t, mc.log, batch, epoch)
	if info.BaseOffset != mc.model.end {
		t.Fatalf("appended at %d, want %d", info.BaseOffset, mc.model.end)
	}
	mc.model.add(stamped(batch, mc.model.end, epoch))
}

func (mc *machine) AppendIdempotent(t *rapid.T) {
	m := &mc.model
	n := rapid.Int32Range(1, 3).Draw(t, "records")
	sequence := int32(0)
	if len(m.sent) > 0 {
		last := m.sent[len(m.sent)-1]
		sequence = last.sequence + last.records
	}
	gap := rapid.SampledFrom([]int32{0, 0, 0, 5}).Draw(t, "gap")
	if len(m.sent) == 0 {
		gap = 0
	}
	epoch := mc.epoch()
	batch := batchOf(t, int(n), 10, clock.UnixMilli(), &recordbatch.Producer{ID: m.producer, BaseSequence: sequence + gap})
	_, err := mc.log.Append(batch, epoch, partlog.AppendOptions{LogAppendTimeMs: -1})
	if gap > 0 {
		if !errors.Is(err, partlog.ErrOutOfOrderSequence) {
			t.Fatalf("a gap of %d: %v", gap, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	m.sent = append(m.sent, sentBatch{batch, m.end, m.end + int64(n) - 1, sequence, n})
	m.add(stamped(batch, m.end, epoch))
}

func (mc *machine) Repeat(t *rapid.T) {
	m := &mc.model
	if len(m.sent) == 0 {
		t.Skip("nothing sent")
	}
	old := m.sent[len(m.sent)-1-rapid.IntRange(0, min(4, len(m.sent)-1)).Draw(t, "back")]
	info := mustAppend(t, mc.log, bytes.Clone(old.bytes), m.latestEpoch())
	if !info.Duplicate || info.BaseOffset != old.base || info.LastOffset != old.last {
		t.Fatalf("repeat of %d-%d answered %+v", old.base, old.last, info)
	}
}

func (mc *machine) AppendAsFollower(t *rapid.T) {
	var all []byte
	epoch := mc.model.latestEpoch()
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		epoch = mc.epoch()
		batch := stamped(mc.record(rapid.IntRange(1, 4).Draw(t, "records")), mc.model.end, epoch)
		all = append(all, batch...)
		mc.model.add(batch)
	}
	if torn := rapid.IntRange(0, 100).Draw(t, "torn"); torn > 0 {
		next := stamped(mc.record(3), mc.model.end, epoch)
		all = append(all, next[:min(torn, len(next)-1)]...)
	}
	if _, err := mc.log.AppendAsFollower(all, epoch); err != nil {
		t.Fatalf("append as follower: %v", err)
	}
}

func (mc *machine) Truncate(t *rapid.T) {
	m := &mc.model
	if m.start == m.end {
		t.Skip("empty")
	}
	offset := rapid.Int64Range(m.start, m.end).Draw(t, "offset")
	if err := mc.log.TruncateTo(offset); err != nil {
		t.Fatalf("truncate to %d: %v", offset, err)
	}
	if offset == m.end {
		return
	}
	for len(m.batches) > 0 && lastOf(m.batches[len(m.batches)-1]) >= offset {
		m.end = firstOf(m.batches[len(m.batches)-1])
		m.batches = m.batches[:len(m.batches)-1]
	}
	m.start = min(m.start, m.end)
	m.epochs = m.epochs[:m.end-m.first]
	m.newProducer()
}

func (mc *machine) StartOver(t *rapid.T) {
	offset := mc.model.end + rapid.Int64Range(0, 20).Draw(t, "offset")
	if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
		t.Skip("seldom")
	}
	if err := mc.log.TruncateFullyAndStartAt(offset); err != nil {
		t.Fatalf("start over: %v", err)
	}
	mc.model = model{start: offset, end: offset, first: offset, producer: mc.model.producer + 1}
}

func (mc *machine) SetStart(t *rapid.T) {
	offset := rapid.Int64Range(0, mc.model.end).Draw(t, "offset")
	if err := mc.log.SetStartOffset(offset); err != nil {
		t.Fatalf("set start: %v", err)
	}
	mc.model.start = max(mc.model.start, offset)
}

func (mc *machine) Retain(t *rapid.T) {
	bytesKept := rapid.Int64Range(-1, 2000).Draw(t, "bytes")
	upTo := rapid.Int64Range(0, mc.model.end).Draw(t, "up to")
	before := int64(len(bytes.Join(mc.model.visible(), nil)))
	if _, err := mc.log.Retain(partlog.RetentionPolicy{Bytes: bytesKept, UpTo: upTo}, clock); err != nil {
		t.Fatalf("retain: %v", err)
	}
	start := mc.log.StartOffset()
	switch {
	case start < mc.model.start || start > max(upTo, mc.model.start):
		t.Fatalf("retain up to %d moved the start from %d to %d", upTo, mc.model.start, start)
	case bytesKept >= 0 && mc.log.SizeBytes() < min(before, bytesKept):
		t.Fatalf("retain left %d bytes, was told to keep %d of %d", mc.log.SizeBytes(), bytesKept, before)
	}
	mc.model.start = start
}

func (mc *machine) Reopen(t *rapid.T) {
	if err := mc.log.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	mc.log = mustOpen(t, mc.opts)
	if mc.log.Recovered().Unclean {
		t.Fatalf("closed cleanly, found %s", mc.log.Recovered())
	}
}

func (mc *machine) Kill(t *rapid.T) {
	mc.disk = mc.disk.Kill()
	mc.opts.FS, mc.opts.Files = mc.disk, partlog.NewFileBudget(8)
	mc.log = mustOpen(t, mc.opts)
	if mc.log.Recovered().CutAt != partlog.NoOffset {
		t.Fatalf("killed: %s", mc.log.Recovered())
	}
}

func (mc *machine) PowerCut(t *rapid.T) {
	if err := mc.log.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	mc.disk = mc.disk.PowerCut()
	mc.opts.FS, mc.opts.Files = mc.disk, partlog.NewFileBudget(8)
	mc.log = mustOpen(t, mc.opts)
	if mc.log.Recovered().CutAt != partlog.NoOffset {
		t.Fatalf("flushed, then cut: %s", mc.log.Recovered())
	}
}

func (mc *machine) ReadSomewhere(t *rapid.T) {
	m := &mc.model
	if m.start == m.end {
		t.Skip("empty")
	}
	offset := rapid.Int64Range(m.start, m.end-1).Draw(t, "offset")
	maxBytes := rapid.IntRange(0, 1000).Draw(t, "max bytes")
	upTo := rapid.Int64Range(m.start, m.end+2).Draw(t, "up to")
	minOne := rapid.Bool().Draw(t, "min one")
	info, err := mc.log.Read(offset, maxBytes, upTo, minOne)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	checkRead(t, m, info, readAsked{offset, upTo, maxBytes, minOne})
}

type readAsked struct {
	offset, upTo int64
	maxBytes     int
	minOne       bool
}

// checkRead compares an answer with the batches it should consist of.
func checkRead(t *rapid.T, m *model, info partlog.ReadInfo, asked readAsked) {
	var want []byte
	complete := true
	for _, b := range m.batches {
		if lastOf(b) < asked.offset {
			continue
		}
		first := len(want) == 0
		if lastOf(b) >= asked.upTo || len(want)+len(b) > asked.maxBytes && !(first && asked.minOne) {
			complete = false
			break
		}
		want = append(want, b...)
	}
	if !bytes.HasPrefix(want, info.Records) || len(want) > 0 && len(info.Records) == 0 {
		t.Fatalf("read %+v: got %d bytes, want %d (complete %v)", asked, len(info.Records), len(want), complete)
	}
	for batch, err := range recordbatch.Split(info.Records) {
		if err != nil {
			t.Fatalf("read %+v: %v", asked, err)
		}
		if info.NextOffset = max(info.NextOffset, asked.offset); lastOf(batch) >= info.NextOffset {
			t.Fatalf("read %+v: next is %d, but got up to %d", asked, info.NextOffset, lastOf(batch))
		}
	}
}

func (mc *machine) LookUpTime(t *rapid.T) {
	m := &mc.model
	ts := clock.UnixMilli() - rapid.Int64Range(-5, 510).Draw(t, "age")
	wantOffset, wantTime := int64(-1), int64(-1)
	newestOffset, newestTime := int64(-1), int64(-1)
	for _, b := range m.visible() {
		err := recordbatch.Iterate(b, everything, func(r recordbatch.Record) bool {
			if r.Offset >= m.start && r.TimestampMs >= ts && wantOffset < 0 {
				wantOffset, wantTime = r.Offset, r.TimestampMs
			}
			if r.Offset >= m.start && r.TimestampMs > newestTime {
				newestOffset, newestTime = r.Offset, r.TimestampMs
			}
			return true
		})
		if err != nil {
			t.Fatalf("iterate: %v", err)
		}
	}
	offset, timestamp, epoch, ok, err := mc.log.OffsetForTimestamp(ts)
	if err != nil || offset != wantOffset || timestamp != wantTime || ok != (wantOffset >= 0) {
		t.Fatalf("time %d: got %d at %d (%v, %v), want %d at %d", ts, timestamp, offset, ok, err, wantTime, wantOffset)
	}
	if ok && epoch != m.epochs[offset-m.first] {
		t.Fatalf("time %d: epoch %d of offset %d", ts, epoch, offset)
	}
	offset, timestamp, _, ok, err = mc.log.MaxTimestampOffset()
	// A newest record in the half of a batch below the start is not looked for further.
	halved := len(m.visible()) > 0 && firstOf(m.visible()[0]) < m.start
	if err != nil || !halved && (offset != newestOffset || timestamp != newestTime || ok != (newestOffset >= 0)) {
		t.Fatalf("newest: got %d at %d (%v, %v), want %d at %d", timestamp, offset, ok, err, newestTime, newestOffset)
	}
}

// Check compares everything that can be asked.
func (mc *machine) Check(t *rapid.T) {
	m := &mc.model
	if mc.log.StartOffset() != m.start || mc.log.EndOffset() != m.end {
		t.Fatalf("log holds %d to %d, want %d to %d (I16)", mc.log.StartOffset(), mc.log.EndOffset(), m.start, m.end)
	}
	if got := readAll(t, mc.log); !equalBatches(got, m.visible()) {
		t.Fatalf("log holds %s, want %s", describe(got), describe(m.visible()))
	}
	for epoch := int32(-1); m.start < m.end && epoch <= m.latestEpoch()+2; epoch++ {
		wantEpoch, wantEnd := m.endOffsetFor(epoch)
		if gotEpoch, gotEnd := mc.log.EndOffsetForEpoch(epoch); gotEpoch != wantEpoch || gotEnd != wantEnd {
			t.Fatalf("epoch %d ends: got (%d, %d), want (%d, %d)", epoch, gotEpoch, gotEnd, wantEpoch, wantEnd)
		}
	}
	if n := mc.disk.OpenFiles(); n > 8 {
		t.Fatalf("%d files are open, the budget is 8", n)
	}
}

// TestLogIsAListOfBatches runs random operations on a log and on a list.
func TestLogIsAListOfBatches(t *testing.T) {
	for name, flush := range map[string]partlog.FlushPolicy{"flush none": partlog.FlushNone, "flush batch": partlog.FlushBatch} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				mc := &machine{t: t, disk: partlogtest.New()}
				mc.opts = options(mc.disk)
				mc.opts.SegmentBytes, mc.opts.IndexIntervalBytes, mc.opts.Flush = 700, 150, flush
				mc.log = mustOpen(t, mc.opts)
				actions := map[string]func(*rapid.T){
					"append": mc.Append, "append again": mc.Append, "idempotent": mc.AppendIdempotent, "repeat": mc.Repeat,
					"follower": mc.AppendAsFollower, "truncate": mc.Truncate, "start over": mc.StartOver,
					"set start": mc.SetStart, "retain": mc.Retain, "reopen": mc.Reopen, "kill": mc.Kill,
					"power cut": mc.PowerCut, "read": mc.ReadSomewhere, "time": mc.LookUpTime, "": mc.Check,
				}
				for name, action := range actions {
					actions[name] = func(t *rapid.T) { mc.t = t; action(t) }
				}
				t.Repeat(actions)
			})
		})
	}
}
