// Package boltfile reads a bbolt file beside the process that writes it: without its lock, without a write, without a wait on
// either side. It is for people who look at a node that runs, and for disks that bbolt itself would repair.
//
// bbolt never overwrites a page that its last committed state reaches. It writes the changed pages of a transaction elsewhere,
// then one of two meta pages, and only the transaction after that may use the pages which became free. So what is read of a state
// is that state if the meta pages say before and after the reading that it is still the last. The file is read a leaf at a time,
// each so: a leaf is exact, and a reader that is overtaken by a commit reads that one leaf again. What a scan gives as a whole is
// exact as far as the writer only appends meanwhile.
//
// A File is used by one goroutine.
package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime"
)

// Layout of a file, by bbolt's page.go and meta.go. Numbers are of the machine's byte order.
const (
	pageHeaderBytes = 16
	elementBytes    = 16
	metaBytes       = 64
	bucketBytes     = 16

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04

	bucketElement = 0x01

	magic   = 0xED0CDAED
	version = 2
)

// Bounds (I20): a damaged file must not cost memory or time.
const (
	// maxPageBytes bounds a page with its overflow: entries of 1 MiB share one only with few others.
	maxPageBytes = 64 << 20
	// maxDepth bounds the tree; one of 4 KiB pages that is deeper would not fit a disk.
	maxDepth = 32
	// maxOvertakes is how often one leaf may be read in vain, because the writer committed meanwhile.
	maxOvertakes = 10_000
)

// Errors of this package.
var (
	// ErrDamaged is returned when the file is no whole bbolt file.
	ErrDamaged = errors.New("the file is damaged")
	// ErrNoBucket is returned when the file has no such bucket.
	ErrNoBucket = errors.New("no such bucket")
	// ErrBusy is returned when the writer commits so fast that nothing can be read between.
	ErrBusy = errors.New("the file changes too fast to be read")
)

// File is a bbolt file that is only looked at.
type File struct {
	f        *os.File
	pageSize int64
}

// Open opens a file for reading.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &File{f: f}
	if err := b.findPageSize(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return b, nil
}

// Close closes the file.
func (b *File) Close() error { return b.f.Close() }

// meta is what a meta page says.
type meta struct {
	root uint64 // page of the root bucket
	tx   uint64 // transaction that wrote it
}

// findPageSize reads it from the first meta page, or looks for the second, which lies one page further.
func (b *File) findPageSize() error {
	for _, at := range []int64{0, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16} {
		if _, size, err := b.metaAt(at); err == nil && (at == 0 || at == size) {
			b.pageSize = size
			return nil
		}
	}
	return fmt.Errorf("%w: neither of its meta pages can be read", ErrDamaged)
}

func (b *File) metaAt(at int64) (meta, int64, error) {
	var page [pageHeaderBytes + metaBytes]byte
	if _, err := b.f.ReadAt(page[:], at); err != nil {
		return meta{}, 0, err
	}
	m := page[pageHeaderBytes:]
	sum := fnv.New64a()
	sum.Write(m[:56])
	order := binary.NativeEndian
	size := int64(order.Uint32(m[8:]))
	switch {
	case order.Uint16(page[8:])&metaPage == 0, order.Uint32(m) != magic, order.Uint32(m[4:]) != version, order.Uint64(m[56:]) != sum.Sum64():
		return meta{}, 0, fmt.Errorf("%w: meta page at byte %d", ErrDamaged, at)
	case size < 512 || size > 1<<16 || size&(size-1) != 0:
		return meta{}, 0, fmt.Errorf("%w: pages of %d bytes", ErrDamaged, size)
	}
	return meta{root: order.Uint64(m[16:]), tx: order.Uint64(m[48:])}, size, nil
}

// last is the last state that was committed.
func (b *File) last() (meta, error) {
	first, _, errFirst := b.metaAt(0)
	second, _, errSecond := b.metaAt(b.pageSize)
	switch {
	case errFirst != nil && errSecond != nil:
		return meta{}, errFirst
	case errFirst != nil || errSecond == nil && second.tx > first.tx:
		return second, nil
	}
	return first, nil
}

// Each visits the keys of a bucket from one on, in order. Key and value may be kept. The bucket is one of the file's root.
func (b *File) Each(bucket string, from []byte, visit func(key, value []byte) error) error {
	for {
		l, err := b.stableLeaf(bucket, from)
		if err != nil {
			return err
		}
		for _, e := range l.elements {
			if err := visit(e.key, e.value); err != nil {
				return err
			}
		}
		if l.next == nil {
			return nil
		}
		if bytes.Compare(l.next, from) <= 0 {
			return fmt.Errorf("%w: a branch leads back", ErrDamaged)
		}
		from = l.next
	}
}

// Get returns the value of a key, nil if there is none.
func (b *File) Get(bucket string, key []byte) ([]byte, error) {
	l, err := b.stableLeaf(bucket, key)
	if err != nil {
		return nil, err
	}
	if len(l.elements) > 0 && string(l.elements[0].key) == string(key) {
		return l.elements[0].value, nil
	}
	return nil, nil
}

// stableLeaf reads the leaf in which a key belongs, from that key on, as it is in one committed state.
func (b *File) stableLeaf(bucket string, from []byte) (leaf, error) {
	before, err := b.last()
	for range maxOvertakes {
		if err != nil {
			return leaf{}, err
		}
		l, readErr := b.leafFrom(before, bucket, from)
		now, metaErr := b.last()
		if metaErr == nil && now == before {
			return l, readErr
		}
		before, err = now, metaErr
		runtime.Gosched()
	}
	return leaf{}, ErrBusy
}

// readPage reads a page with its overflow and checks that it is the page that was asked for.
func (b *File) readPage(id uint64) ([]byte, error) {
	if id > uint64(1<<62)/uint64(b.pageSize) {
		return nil, fmt.Errorf("%w: page %d cannot be", ErrDamaged, id)
	}
	at := int64(id) * b.pageSize
	page := make([]byte, b.pageSize)
	if err := b.readAt(page, at); err != nil {
		return nil, err
	}
	if got := binary.NativeEndian.Uint64(page); got != id {
		return nil, fmt.Errorf("%w: page %d says that it is %d", ErrDamaged, id, got)
	}
	overflow := int64(binary.NativeEndian.Uint32(page[12:]))
	if overflow == 0 {
		return page, nil
	}
	if overflow > maxPageBytes/b.pageSize {
		return nil, fmt.Errorf("%w: page %d has %d pages of overflow", ErrDamaged, id, overflow)
	}
	whole := make([]byte, (overflow+1)*b.pageSize)
	return whole, b.readAt(whole, at)
}

func (b *File) readAt(p []byte, at int64) error {
	_, err := b.f.ReadAt(p, at)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it ends before byte %d", ErrDamaged, at+int64(len(p)))
	}
	return err
}
