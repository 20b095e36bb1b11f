package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"
)

// element is one key of a leaf.
type element struct {
	key, value []byte
	bucket     bool
}

// leaf is what a search ended at.
type leaf struct {
	// elements from the key that was searched on.
	elements []element
	// next is where the leaf after it begins; nil for the last.
	next []byte
}

// leafFrom finds the leaf of a bucket in which a key belongs, in the tree of one state.
func (b *File) leafFrom(state meta, bucket string, from []byte) (leaf, error) {
	found, err := b.search(state.root, []byte(bucket))
	if err != nil {
		return leaf{}, err
	}
	if len(found.elements) == 0 || string(found.elements[0].key) != bucket || !found.elements[0].bucket {
		return leaf{}, fmt.Errorf("%w: %q", ErrNoBucket, bucket)
	}
	value := found.elements[0].value
	if len(value) < bucketBytes {
		return leaf{}, fmt.Errorf("%w: bucket %q has %d bytes", ErrDamaged, bucket, len(value))
	}
	root := binary.NativeEndian.Uint64(value)
	if root != 0 {
		return b.search(root, from)
	}
	elements, err := leafElements(value[bucketBytes:]) // a small bucket lies in its parent's leaf
	if err != nil {
		return leaf{}, err
	}
	return leaf{elements: since(elements, from)}, nil
}

// search goes down from a page to the leaf in which a key belongs.
func (b *File) search(page uint64, key []byte) (leaf, error) {
	var next []byte
	for range maxDepth {
		data, err := b.readPage(page)
		if err != nil {
			return leaf{}, err
		}
		switch flags := binary.NativeEndian.Uint16(data[8:]); {
		case flags&leafPage != 0:
			elements, err := leafElements(data)
			if err != nil {
				return leaf{}, fmt.Errorf("page %d: %w", page, err)
			}
			return leaf{elements: since(elements, key), next: next}, nil
		case flags&branchPage != 0:
			child, after, err := branchChild(data, key)
			if err != nil {
				return leaf{}, fmt.Errorf("page %d: %w", page, err)
			}
			page = child
			if after != nil {
				next = after
			}
		default:
			return leaf{}, fmt.Errorf("%w: page %d is of kind %#x where the tree goes on", ErrDamaged, page, flags)
		}
	}
	return leaf{}, fmt.Errorf("%w: the tree is deeper than %d pages", ErrDamaged, maxDepth)
}

// since are the elements from a key on.
func since(elements []element, from []byte) []element {
	i := sort.Search(len(elements), func(i int) bool { return bytes.Compare(elements[i].key, from) >= 0 })
	return elements[i:]
}

// leafElements reads a leaf page.
func leafElements(page []byte) ([]element, error) {
	n, err := count(page)
	if err != nil {
		return nil, err
	}
	order := binary.NativeEndian
	list := make([]element, n)
	for i := range list {
		at := pageHeaderBytes + i*elementBytes
		head := page[at:]
		flags, pos, keyLen, valueLen := order.Uint32(head), uint64(order.Uint32(head[4:])), uint64(order.Uint32(head[8:])), uint64(order.Uint32(head[12:]))
		start := uint64(at) + pos
		if start+keyLen+valueLen > uint64(len(page)) {
			return nil, fmt.Errorf("%w: element %d goes beyond its page", ErrDamaged, i)
		}
		list[i] = element{key: page[start : start+keyLen], value: page[start+keyLen : start+keyLen+valueLen], bucket: flags&bucketElement != 0}
		if i > 0 && bytes.Compare(list[i-1].key, list[i].key) >= 0 {
			return nil, fmt.Errorf("%w: element %d is out of order", ErrDamaged, i)
		}
	}
	return list, nil
}

// branchChild finds the page below a branch page in which a key belongs, and the key with which the page after it begins.
func branchChild(page, key []byte) (child uint64, next []byte, err error) {
	n, err := count(page)
	if err != nil {
		return 0, nil, err
	}
	order := binary.NativeEndian
	keys, pages := make([][]byte, n), make([]uint64, n)
	for i := range n {
		at := pageHeaderBytes + i*elementBytes
		head := page[at:]
		start, keyLen := uint64(at)+uint64(order.Uint32(head)), uint64(order.Uint32(head[4:]))
		if start+keyLen > uint64(len(page)) {
			return 0, nil, fmt.Errorf("%w: element %d goes beyond its page", ErrDamaged, i)
		}
		keys[i], pages[i] = page[start:start+keyLen], order.Uint64(head[8:])
		if i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 {
			return 0, nil, fmt.Errorf("%w: element %d is out of order", ErrDamaged, i)
		}
	}
	if n == 0 {
		return 0, nil, fmt.Errorf("%w: a branch without a child", ErrDamaged)
	}
	// A key before the first child belongs into the first child.
	after := max(sort.Search(n, func(i int) bool { return bytes.Compare(keys[i], key) > 0 }), 1)
	if after < n {
		next = keys[after]
	}
	return pages[after-1], next, nil
}

// count is the number of a page's elements, whose heads must fit it.
func count(page []byte) (int, error) {
	if len(page) < pageHeaderBytes {
		return 0, fmt.Errorf("%w: page of %d bytes", ErrDamaged, len(page))
	}
	n := int(binary.NativeEndian.Uint16(page[10:]))
	if pageHeaderBytes+n*elementBytes > len(page) {
		return 0, fmt.Errorf("%w: %d elements do not fit a page of %d bytes", ErrDamaged, n, len(page))
	}
	return n, nil
}
