package partlog_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/skiffmq/skiff/brokerd/partlog"
)

// sixteenKiB is a batch of 16 records of 1000 bytes.
func sixteenKiB(b *testing.B) []byte { return batchOf(b, 16, 1000, clock.UnixMilli(), nil) }

func benchLog(b *testing.B, flush partlog.FlushPolicy) *partlog.Log {
	b.Helper()
	l, err := partlog.Open(b.TempDir()+"/p", partlog.Options{Flush: flush})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Delete(); err != nil {
			b.Error(err)
		}
	})
	return l
}

func benchAppend(b *testing.B, l *partlog.Log, batch []byte) {
	b.Helper()
	if _, err := l.Append(batch, 0, partlog.AppendOptions{LogAppendTimeMs: -1}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAppend16KiB(b *testing.B) {
	l, batch := benchLog(b, partlog.FlushNone), sixteenKiB(b)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		benchAppend(b, l, batch)
	}
}

func BenchmarkAppendFlushed16KiB(b *testing.B) {
	l, batch := benchLog(b, partlog.FlushBatch), sixteenKiB(b)
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		benchAppend(b, l, batch)
	}
}

// BenchmarkAppendFlushedTogether has 16 appends waiting at a time.
func BenchmarkAppendFlushedTogether(b *testing.B) {
	l := benchLog(b, partlog.FlushBatch)
	b.SetBytes(int64(len(sixteenKiB(b))))
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for batch := sixteenKiB(b); pb.Next(); {
			if _, err := l.Append(batch, 0, partlog.AppendOptions{LogAppendTimeMs: -1}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{16 << 10, 1 << 20} {
		for name, sealed := range map[string]bool{"active": false, "sealed": true} {
			b.Run(fmt.Sprintf("%d KiB of the %s segment", size>>10, name), func(b *testing.B) { benchRead(b, size, sealed) })
		}
	}
}

func benchRead(b *testing.B, size int, sealed bool) {
	l, batch := benchLog(b, partlog.FlushNone), sixteenKiB(b)
	const batches = 4096
	for range batches {
		benchAppend(b, l, batch)
	}
	if sealed {
		l.SetSegmentBytes(1)
		benchAppend(b, l, batch)
		if _, err := l.Retain(partlog.RetentionPolicy{Bytes: -1}, clock); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	offset := int64(0)
	for b.Loop() {
		info, err := l.Read(offset, size, math.MaxInt64, true)
		if err != nil {
			b.Fatal(err)
		}
		if offset = info.NextOffset; offset >= 16*(batches-64) {
			offset = 0
		}
	}
}

// BenchmarkRecover opens a log of 64 MiB that was killed.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir() + "/p"
	l, err := partlog.Open(dir, partlog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	batch := sixteenKiB(b)
	for range 4096 {
		benchAppend(b, l, batch)
	}
	b.SetBytes(l.SizeBytes())
	for b.Loop() {
		again, err := partlog.Open(dir, partlog.Options{})
		if err != nil || again.EndOffset() != l.EndOffset() {
			b.Fatal(err)
		}
	}
}
