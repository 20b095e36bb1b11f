package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// compress is the other direction of decompress, for Build.
func compress(codec Codec, plain []byte, xerial bool) ([]byte, error) {
	switch codec {
	case CodecNone:
		return plain, nil
	case CodecGzip:
		return compressStream(plain, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	case CodecSnappy:
		if xerial {
			return xerialFrame(plain), nil
		}
		return snappy.Encode(nil, plain), nil
	case CodecLZ4:
		return compressStream(plain, func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) })
	case CodecZstd:
		encoder, err := zstdEncoder()
		if err != nil {
			return nil, err
		}
		return encoder.EncodeAll(plain, nil), nil
	}
	return nil, fmt.Errorf("%w: %d", ErrUnsupportedCodec, codec)
}

var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil) })

func compressStream(plain []byte, open func(io.Writer) io.WriteCloser) ([]byte, error) {
	var out bytes.Buffer
	w := open(&out)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// xerialBlockBytes is the block size of xerial's framing.
const xerialBlockBytes = 32 << 10

func xerialFrame(plain []byte) []byte {
	out := append([]byte(nil), xerialMagic...)
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(plain) > 0 {
		n := min(len(plain), xerialBlockBytes)
		block := snappy.Encode(nil, plain[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out = append(out, block...)
		plain = plain[n:]
	}
	return out
}
