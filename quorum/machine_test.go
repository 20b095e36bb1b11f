package quorum

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// machineUnderTest is a fold with its subscribers counted.
type machineUnderTest struct {
	*machine
	published, observed, restores, froze int
	next                                 uint64
}

func newTestMachine(t *testing.T) *machineUnderTest {
	t.Helper()
	p := testPlan()
	img, err := p.genesis()
	if err != nil {
		t.Fatal(err)
	}
	m := &machineUnderTest{next: 2}
	m.machine = &machine{
		logger: hclog.NewNullLogger(), clusterID: p.ClusterID, lineage: p.lineage(),
		published: func(*controllerv1.EntryApplied, *fsm.Image) { m.published++ },
		observed:  func(fsm.Result, *metadatav1.Envelope) { m.observed++ },
		restored:  func(*fsm.Image) { m.restores++ },
		froze:     func() { m.froze++ },
	}
	m.image.Store(img)
	return m
}

// feed folds one entry of term 2.
func (m *machineUnderTest) feed(t *testing.T, env *metadatav1.Envelope) fsm.Result {
	t.Helper()
	data, err := fsm.EncodeEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	answers := m.ApplyBatch([]*raft.Log{{Index: m.next, Term: 2, Type: raft.LogCommand, Data: data}, {Index: m.next + 1, Term: 2, Type: raft.LogConfiguration}})
	m.next += 2
	return answers[0].(fsm.Result)
}

func (m *machineUnderTest) envelope(records ...*metadatav1.Record) *metadatav1.Envelope {
	img := m.image.Load()
	id := img.Lineage().ID
	return &metadatav1.Envelope{
		Format: 1, ClusterId: img.ClusterID(), Lineage: &metadatav1.LineageID{Number: id.Number, Uuid: id.UUID.Bytes()},
		Batches: []*metadatav1.Batch{{RequestId: fsm.UUID{1}.Bytes(), Records: records}},
	}
}

func (m *machineUnderTest) claim(t *testing.T) {
	t.Helper()
	r := m.feed(t, m.envelope(&metadatav1.Record{Kind: &metadatav1.Record_ControllerClaimed{ControllerClaimed: &metadatav1.ControllerClaimed{
		NodeId: 101, DirectoryId: fsm.UUID{1}.Bytes(), IncarnationId: fsm.UUID{2}.Bytes(), Nonce: fsm.UUID{3}.Bytes(),
	}}}))
	if r.Outcome != fsm.Applied {
		t.Fatalf("claim: %+v", r)
	}
}

// decided is an entry of the present claim.
func (m *machineUnderTest) decided(records ...*metadatav1.Record) *metadatav1.Envelope {
	img, env := m.image.Load(), m.envelope(records...)
	epoch, claim, next := img.ControllerEpoch(), img.ClaimOffset(), img.NextOffset()
	env.ControllerEpoch, env.ClaimOffset, env.FirstMetadataOffset = &epoch, &claim, &next
	return env
}

// registers is a record that folds at the metadata offset.
func (m *machineUnderTest) registers(broker int32) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
		BrokerId: broker, BrokerEpoch: m.image.Load().NextOffset(), IncarnationId: fsm.UUID{1}.Bytes(), Fenced: true,
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		Directories: [][]byte{fsm.UUID{2}.Bytes()},
	}}}
}

func removeTopic(id byte) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RemoveTopic{RemoveTopic: &metadatav1.RemoveTopic{TopicId: fsm.UUID{id}.Bytes()}}}
}

// TestEntryThatDoesNotFoldFreezesTheImage: the node goes on consuming, keeps the image, refuses snapshots (I3).
func TestEntryThatDoesNotFoldFreezesTheImage(t *testing.T) {
	m := newTestMachine(t)
	m.claim(t)
	before := m.image.Load()
	if r := m.feed(t, m.decided(removeTopic(9))); r.Outcome != fsm.Broken || !strings.Contains(r.Err.Error(), "I3") {
		t.Fatalf("%+v", r)
	}
	published := m.published
	if r := m.feed(t, m.decided(m.registers(1))); r.Outcome != fsm.Broken {
		t.Errorf("after the freeze: %+v", r)
	}
	if m.image.Load() != before || m.published != published || m.froze != 1 || m.index.Load() != m.next-1 {
		t.Errorf("image changed %t, published %d more, froze %d times, consumed up to %d of %d",
			m.image.Load() != before, m.published-published, m.froze, m.index.Load(), m.next-1)
	}
	if _, err := m.Snapshot(); err == nil {
		t.Error("a snapshot was taken of a frozen image")
	}
}

func TestUnreadableEntryFreezesTheImage(t *testing.T) {
	m := newTestMachine(t)
	r := m.Apply(&raft.Log{Index: 2, Term: 2, Type: raft.LogCommand, Data: []byte("garbage")}).(fsm.Result)
	if r.Outcome != fsm.Broken || m.froze != 1 {
		t.Errorf("%+v, froze %d times", r, m.froze)
	}
}

// TestOtherDigestRaisesTheAlarm: the image goes on, so that digests can be compared, but serves nobody (I1).
func TestOtherDigestRaisesTheAlarm(t *testing.T) {
	m := newTestMachine(t)
	m.claim(t)
	env, wrong := m.decided(m.registers(1)), uint64(42)
	env.DigestBefore = &wrong
	if r := m.feed(t, env); r.Outcome != fsm.Applied || r.Alarm == nil {
		t.Fatalf("%+v", r)
	}
	f := m.fault.Load()
	if f == nil || f.frozen || !strings.Contains(f.Error(), "I1") {
		t.Fatalf("fault %v", f)
	}
	if _, ok := m.image.Load().Broker(1); !ok || m.froze != 0 {
		t.Error("the image stopped")
	}
	if _, err := m.Snapshot(); err == nil {
		t.Error("a snapshot was taken of an image that differs")
	}
}

func TestDroppedEntryChangesNothing(t *testing.T) {
	m := newTestMachine(t)
	m.claim(t)
	before, published, observed := m.image.Load(), m.published, m.observed
	env := m.decided(m.registers(1))
	*env.ClaimOffset--
	if r := m.feed(t, env); r.Outcome != fsm.Dropped || m.image.Load() != before {
		t.Errorf("%+v", r)
	}
	if m.published != published || m.observed != observed+1 || m.dropped.Load() != 1 {
		t.Errorf("published %d, observed %d, dropped %d", m.published-published, m.observed-observed, m.dropped.Load())
	}
}

func snapshotOf(t *testing.T, img *fsm.Image) io.ReadCloser {
	t.Helper()
	var b bytes.Buffer
	if err := fsm.WriteSnapshot(img, &b); err != nil {
		t.Fatal(err)
	}
	return io.NopCloser(&b)
}

// TestRestoreTakesOnlyOurOwnFuture: no other cluster, no damage, nothing older than what is here (I5, I6).
func TestRestoreTakesOnlyOurOwnFuture(t *testing.T) {
	m := newTestMachine(t)
	genesis := m.image.Load()
	m.claim(t)
	if r := m.feed(t, m.decided(m.registers(1))); r.Outcome != fsm.Applied {
		t.Fatalf("%+v", r)
	}
	ahead := m.image.Load()

	for name, r := range map[string]io.ReadCloser{
		"another cluster": snapshotOf(t, newTestMachine(t).image.Load()),
		"the past":        snapshotOf(t, genesis),
		"garbage":         io.NopCloser(strings.NewReader("garbage")),
	} {
		if err := m.Restore(r); err == nil || m.image.Load() != ahead || m.restores != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}

	m.image.Store(genesis)
	m.fault.Store(&fault{frozen: true, err: io.EOF})
	if err := m.Restore(snapshotOf(t, ahead)); err != nil {
		t.Fatal(err)
	}
	if got := m.image.Load(); got.Digest() != ahead.Digest() || got.NextOffset() != ahead.NextOffset() || m.restores != 1 || m.fault.Load() != nil {
		t.Errorf("digest %s, want %s; restored %d times, fault %v", got.Digest(), ahead.Digest(), m.restores, m.fault.Load())
	}
}
