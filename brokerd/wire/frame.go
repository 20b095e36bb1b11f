package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// sizeBytes is the length of the size that opens a frame.
	sizeBytes = 4
	// FirstChunkBytes is what a frame may cost before any of it has arrived. Most requests fit.
	FirstChunkBytes = 64 << 10
	// growth is how many times what has arrived a frame may cost. A larger factor copies less.
	growth = 8
)

// FrameSizeError says that a peer announced a frame which is not going to be read.
type FrameSizeError struct {
	// Size is what the peer announced; negative sizes are never legal.
	Size int
	// Limit is the greatest size that was acceptable.
	Limit int
}

// Error implements error.
func (e *FrameSizeError) Error() string {
	return fmt.Sprintf("frame of %d bytes announced, the limit is %d", e.Size, e.Limit)
}

// ReadSize reads the size that opens a frame and refuses a negative one and one above limit with a *FrameSizeError.
// It returns io.EOF, and nothing else, when the peer closed the connection between two frames.
func ReadSize(r io.Reader, limit int) (int, error) {
	var b [sizeBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(b[:])))
	return size, CheckSize(size, limit)
}

// CheckSize returns a *FrameSizeError when size is negative or above limit.
func CheckSize(size, limit int) error {
	if size < 0 || size > limit {
		return &FrameSizeError{Size: size, Limit: limit}
	}
	return nil
}

// ReadRest appends to buf what is missing of a frame of size bytes, of which buf holds the beginning.
func ReadRest(r io.Reader, buf []byte, size int) ([]byte, error) {
	for len(buf) < size {
		filled := len(buf)
		end := min(size, max(FirstChunkBytes, cap(buf), growth*filled))
		buf = extend(buf, end)
		if _, err := io.ReadFull(r, buf[filled:]); err != nil {
			return nil, unexpectedEOF(err)
		}
	}
	return buf, nil
}

// ReadFrame reads one frame of at most limit bytes, without its size. Errors are those of [ReadSize] and [ReadRest].
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	size, err := ReadSize(r, limit)
	if err != nil {
		return nil, err
	}
	return ReadRest(r, nil, size)
}

// extend returns buf with length n, reallocated if it must be.
func extend(buf []byte, n int) []byte {
	if n <= cap(buf) {
		return buf[:n]
	}
	longer := make([]byte, n)
	copy(longer, buf)
	return longer
}

// unexpectedEOF turns the end of the stream inside a frame into what it is: a frame cut short.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
