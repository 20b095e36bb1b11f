package recordbatch

import (
	"fmt"
	"strings"
)

// Codec is a batch's compression, as Kafka numbers them.
type Codec int8

// The codecs.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns Kafka's name of the codec.
func (c Codec) String() string {
	if c.known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

func (c Codec) known() bool { return c >= CodecNone && c <= CodecZstd }

// ParseCodec returns the codec of one of Kafka's names.
func ParseCodec(name string) (Codec, error) {
	for i, known := range codecNames {
		if name == known {
			return Codec(i), nil
		}
	}
	return CodecNone, fmt.Errorf("%w: %q is none of %s", ErrUnsupportedCodec, name, strings.Join(codecNames[:], ", "))
}
