package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	// firstBufferBytes is what is allocated before any byte has proved that
	// there is more to come.
	firstBufferBytes = 64 << 10
	// plainBytesMax bounds what any caller may ask for.
	plainBytesMax = 1 << 30
	// snappyExpansionMax is more than any snappy block can grow: its densest
	// element makes 64 bytes of 3.
	snappyExpansionMax = 64
)

// decompress returns the records of a batch in plain form, at most maxBytes of
// them. Memory grows with the bytes that really come out, or with a length
// that the input claims and could hold; never beyond maxBytes by much.
func decompress(codec Codec, body []byte, maxBytes int) ([]byte, error) {
	maxBytes = min(max(maxBytes, 0), plainBytesMax)
	var plain []byte
	var err error
	switch codec {
	case CodecNone:
		plain, err = body, nil
	case CodecGzip:
		plain, err = gunzip(body, maxBytes)
	case CodecSnappy:
		plain, err = unsnappy(body, maxBytes)
	case CodecLZ4:
		plain, err = unlz4(body, maxBytes)
	case CodecZstd:
		plain, err = unzstd(body, maxBytes)
	default:
		return nil, fmt.Errorf("%w: %d", ErrUnsupportedCodec, codec)
	}
	switch {
	case errors.Is(err, ErrExpansion):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: decompress %s: %w", ErrInvalidRecord, codec, err)
	case len(plain) > maxBytes:
		return nil, expansionError(maxBytes)
	}
	return plain, nil
}

func expansionError(maxBytes int) error {
	return fmt.Errorf("%w of %d bytes", ErrExpansion, maxBytes)
}

// readCapped reads r to its end, but not past maxBytes.
func readCapped(r io.Reader, maxBytes int) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(min(maxBytes, firstBufferBytes) + bytes.MinRead)
	if _, err := out.ReadFrom(io.LimitReader(r, int64(maxBytes)+1)); err != nil {
		return nil, err
	}
	if out.Len() > maxBytes {
		return nil, expansionError(maxBytes)
	}
	return out.Bytes(), nil
}

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

func gunzip(body []byte, maxBytes int) ([]byte, error) {
	r := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(body)); err != nil {
		return nil, err
	}
	return readCapped(r, maxBytes)
}

var lz4Readers = sync.Pool{New: func() any { return lz4.NewReader(nil) }}

func unlz4(body []byte, maxBytes int) ([]byte, error) {
	r := lz4Readers.Get().(*lz4.Reader)
	defer lz4Readers.Put(r)
	r.Reset(bytes.NewReader(body))
	return readCapped(r, maxBytes)
}

// zstdBlockBytes is the most that one block of zstd decompresses to;
// zstdBlockBytesMin the least that it takes.
const (
	zstdBlockBytes    = 128 << 10
	zstdBlockBytesMin = 4
)

// zstdDecoder limits DecodeAll to the capacity it is given. It is safe for
// concurrent use and in that mode allocates no window, which a frame may claim
// to be of any size.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
})

// unzstd tries with more and more room, as long as what came out shows that
// room is what was missing. Room for a block above maxBytes tells too much
// from damaged.
func unzstd(body []byte, maxBytes int) ([]byte, error) {
	decoder, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	most := maxBytes + zstdBlockBytes
	size := min(most, max(firstBufferBytes, 4*len(body))+zstdBlockBytes)
	var frame zstd.Header
	if err := frame.Decode(body); err == nil && frame.HasFCS {
		if frame.FrameContentSize > uint64(maxBytes) {
			return nil, expansionError(maxBytes)
		}
		if frame.FrameContentSize > uint64(len(body)/zstdBlockBytesMin+1)*zstdBlockBytes {
			return nil, zstd.ErrFrameSizeMismatch
		}
		size = int(frame.FrameContentSize)
	}
	for {
		plain, err := decoder.DecodeAll(body, make([]byte, 0, size))
		switch {
		case err == nil:
			return plain, nil
		case len(plain) > maxBytes || size >= most && errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, expansionError(maxBytes)
		case size >= most || len(plain)+zstdBlockBytes < size && !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, err
		}
		size = min(most, 4*max(size, zstdBlockBytes))
	}
}

// xerialMagic opens the framing that Java's and most other clients put around
// snappy blocks: magic, two int32 versions, then blocks of int32 length.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderBytes = 16

func unsnappy(body []byte, maxBytes int) ([]byte, error) {
	if !bytes.HasPrefix(body, xerialMagic) {
		return appendSnappyBlock(nil, body, maxBytes)
	}
	if len(body) < xerialHeaderBytes {
		return nil, io.ErrUnexpectedEOF
	}
	var plain []byte
	for rest := body[xerialHeaderBytes:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		length := binary.BigEndian.Uint32(rest)
		if uint64(length) > uint64(len(rest)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if plain, err = appendSnappyBlock(plain, rest[4:4+length], maxBytes); err != nil {
			return nil, err
		}
		rest = rest[4+length:]
	}
	return plain, nil
}

func appendSnappyBlock(plain, block []byte, maxBytes int) ([]byte, error) {
	size, err := snappy.DecodedLen(block)
	switch {
	case err != nil:
		return nil, err
	case size > maxBytes-len(plain):
		return nil, expansionError(maxBytes)
	case size > snappyExpansionMax*len(block):
		return nil, snappy.ErrCorrupt
	}
	out, err := snappy.Decode(nil, block)
	if err != nil {
		return nil, err
	}
	if plain == nil {
		return out, nil
	}
	return append(plain, out...), nil
}
