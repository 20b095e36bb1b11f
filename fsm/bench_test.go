package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// bigImage has topics x partitions at replication factor 3 over brokers brokers.
func bigImage(tb reporter, topics, partitions, brokers int) *Image {
	tb.Helper()
	w := newWorld(tb)
	w.claim(101, 1)
	for b := range brokers {
		w.addBroker(int32(b))
	}
	var batch []record
	for t := range topics {
		batch = append(batch, topicRecord(fmt.Sprintf("topic-%07d", t), spread(t)))
		for p := range partitions {
			i := t*partitions + p
			replicas := []int32{int32(i % brokers), int32((i + 1) % brokers), int32((i + 2) % brokers)}
			batch = append(batch, partitionRecord(spread(t), int32(p), replicas))
		}
		if len(batch)+partitions+1 > 5000 || t == topics-1 {
			w.fold(batch...)
			batch = nil
		}
	}
	return w.img
}

// spread makes uuids that lie as random ones do; sequential ones would leave the trees half empty.
func spread(n int) UUID {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return UUID(h[:16])
}

// BenchmarkApply measures one ISR change in an entry of its own, which must not depend on the number of topics.
func BenchmarkApply(b *testing.B) {
	for _, topics := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			benchmarkISRChange(b, bigImage(b, topics, 3, 12), topics)
		})
	}
}

// BenchmarkApplyMillion is the same with a million partitions; it reports what they cost on the heap.
func BenchmarkApplyMillion(b *testing.B) {
	for _, shape := range []struct{ topics, partitions, brokers int }{{10_000, 100, 12}, {100_000, 10, 12}, {1_000, 1_000, 100}} {
		b.Run(fmt.Sprintf("topics=%d/partitions=%d/brokers=%d", shape.topics, shape.partitions, shape.brokers), func(b *testing.B) {
			before := heapBytes()
			img := bigImage(b, shape.topics, shape.partitions, shape.brokers)
			perPartition := float64(heapBytes()-before) / float64(img.NumPartitions())
			benchmarkISRChange(b, img, shape.topics)
			b.ReportMetric(perPartition, "B/partition")
		})
	}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// benchmarkISRChange applies one of a thousand entries, all decided on the same image, again and again.
func benchmarkISRChange(b *testing.B, img *Image, topics int) {
	w := &world{tb: b, img: img}
	entries := make([]Entry, 1000)
	for i := range entries {
		id := spread(i * (topics / len(entries)))
		p, _ := img.Partition(PartitionID{Topic: id})
		entries[i] = w.entry(changeISR(id, 0, p.Replicas[:2]))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if r := Apply(img, entries[i%len(entries)]); r.Outcome != Applied {
			b.Fatal(r.Outcome, r.Mismatch, r.Err)
		}
	}
}

// BenchmarkFence fences a broker that is in the ISR of 9,000 partitions and leads a third of them, in one batch.
func BenchmarkFence(b *testing.B) {
	w := &world{tb: b, img: bigImage(b, 900, 10, 3)}
	var batch []record
	for id := range w.img.PartitionsOf(1) {
		p, _ := w.img.Partition(id)
		isr := without(p.ISR, 1)
		if p.Leader == 1 {
			batch = append(batch, changeLeader(id.Topic, id.Partition, isr, isr[0]))
		} else {
			batch = append(batch, changeISR(id.Topic, id.Partition, isr))
		}
	}
	batch = append(batch, fenceRecord(w, 1, true))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, _, err := FoldBatches(w.img, w.batch(batch...), 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLocal asks what a change of one partition in a large image means for a broker.
func BenchmarkLocal(b *testing.B) {
	w := &world{tb: b, img: bigImage(b, 10_000, 10, 12)}
	_, d, err := FoldBatches(w.img, w.batch(changeISR(spread(0), 0, []int32{0, 1})), 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		d.Local(1)
	}
}

// BenchmarkSnapshotMillion writes and reads back a million partitions. The processor's time is told besides the clock's,
// which says little on a machine that others use too.
func BenchmarkSnapshotMillion(b *testing.B) {
	img := bigImage(b, 10_000, 100, 12)
	var stream bytes.Buffer
	if err := WriteSnapshot(img, &stream); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		benchmarkCPU(b, func() error { return WriteSnapshot(img, io.Discard) })
	})
	b.Run("read", func(b *testing.B) {
		benchmarkCPU(b, func() error { _, err := ReadSnapshot(bytes.NewReader(stream.Bytes())); return err })
	})
}

// BenchmarkDiffMillion compares a million partitions with those of another image that shares nothing with it, as a follower
// does that is given a snapshot.
func BenchmarkDiffMillion(b *testing.B) {
	img := bigImage(b, 10_000, 100, 12)
	other := throughSnapshot(b, img)
	b.Run("equal", func(b *testing.B) {
		benchmarkCPU(b, func() error { Diff(img, other); return nil })
	})
	born, err := Rebirth(other, Birth{ClusterID: img.ClusterID(), UUID: uuid(2)})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("reborn", func(b *testing.B) {
		benchmarkCPU(b, func() error { Diff(img, born); return nil })
	})
}

func benchmarkCPU(b *testing.B, op func() error) {
	begin := processTime(b)
	for range b.N {
		if err := op(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((processTime(b)-begin).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// BenchmarkSnapshot writes and reads 100,000 partitions.
func BenchmarkSnapshot(b *testing.B) {
	img := bigImage(b, 10_000, 10, 12)
	var stream bytes.Buffer
	if err := WriteSnapshot(img, &stream); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(stream.Len()))
		for range b.N {
			if err := WriteSnapshot(img, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(stream.Len()))
		for range b.N {
			if _, err := ReadSnapshot(bytes.NewReader(stream.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(stream.Len()))
		for range b.N {
			v := NewSnapshotVerifier()
			if _, err := v.Write(stream.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		for range b.N {
			if err := Check(img); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("diff of unrelated images", func(b *testing.B) {
		other, err := ReadSnapshot(bytes.NewReader(stream.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		for range b.N {
			Diff(img, other)
		}
	})
}
