package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersionsKey is the one API whose response header never has tags.
const apiVersionsKey = 18

// RequestPrefixBytes is how much of a frame tells key, version and correlation id.
const RequestPrefixBytes = 8

// ErrMalformed is returned when bytes are not the message that they claim to be.
var ErrMalformed = errors.New("malformed message")

// RequestHeader opens every request.
type RequestHeader struct {
	// Key is the API key.
	Key int16
	// Version is the version of the request and of its answer.
	Version int16
	// CorrelationID comes back in the answer.
	CorrelationID int32
	// ClientID is what the client calls itself; empty when it gave none.
	ClientID string
}

// ParsePrefix reads the first [RequestPrefixBytes] of a request: all of the header but the client id.
// They are enough to refuse a request before the rest of it is read.
func ParsePrefix(b []byte) (RequestHeader, error) {
	if len(b) < RequestPrefixBytes {
		return RequestHeader{}, fmt.Errorf("%w: request header of %d bytes", ErrMalformed, len(b))
	}
	return RequestHeader{
		Key:           int16(binary.BigEndian.Uint16(b)),
		Version:       int16(binary.BigEndian.Uint16(b[2:])),
		CorrelationID: int32(binary.BigEndian.Uint32(b[4:])),
	}, nil
}

// ParseRequestHeader reads the header of a request as far as it is the same in every version of every API, and returns what
// follows it: the header's tags, when the version is flexible, and the body. See [DecodeRequest].
func ParseRequestHeader(frame []byte) (RequestHeader, []byte, error) {
	h, err := ParsePrefix(frame)
	if err != nil {
		return h, nil, err
	}
	rest := frame[RequestPrefixBytes:]
	if len(rest) < 2 {
		return h, nil, fmt.Errorf("%w: no client id", ErrMalformed)
	}
	n := int(int16(binary.BigEndian.Uint16(rest)))
	rest = rest[2:]
	if n < 0 { // null
		return h, rest, nil
	}
	if n > len(rest) {
		return h, nil, fmt.Errorf("%w: client id of %d bytes, %d are left", ErrMalformed, n, len(rest))
	}
	h.ClientID = string(rest[:n])
	return h, rest[n:], nil
}

// DecodeRequest reads what follows a request's header into req, whose version must be set and must be one that kmsg knows:
// kmsg takes odd branches for others. Bytes fields of req share memory with rest. Bytes after the body are ignored.
func DecodeRequest(req kmsg.Request, rest []byte) error {
	body, err := skipTags(rest, req.IsFlexible())
	if err != nil {
		return err
	}
	return decode(req, body)
}

// FormatRequest returns a whole frame that carries req: size, header and body.
func FormatRequest(req kmsg.Request, clientID string, correlationID int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, correlationID)
}

// AppendResponse appends a whole frame that carries resp: size, header and body.
func AppendResponse(dst []byte, resp kmsg.Response, correlationID int32) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if responseHasTags(resp) {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-sizeBytes))
	return dst
}

// ParseResponse reads a response frame into resp, whose version must be set, and checks that it answers correlationID.
// Bytes fields of resp share memory with frame.
func ParseResponse(frame []byte, resp kmsg.Response, correlationID int32) error {
	if len(frame) < 4 {
		return fmt.Errorf("%w: response of %d bytes", ErrMalformed, len(frame))
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != correlationID {
		return fmt.Errorf("%w: answer to request %d, expected the one to %d", ErrMalformed, got, correlationID)
	}
	body, err := skipTags(frame[4:], responseHasTags(resp))
	if err != nil {
		return err
	}
	return decode(resp, body)
}

// responseHasTags tells whether the response's header is version 1.
func responseHasTags(resp kmsg.Response) bool {
	return resp.IsFlexible() && resp.Key() != apiVersionsKey
}

// decode reads body into m. kmsg is not known to panic on any input; if it ever does, that is the peer's fault and must not
// be the process's end.
func decode(m interface{ ReadFrom([]byte) error }, body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T: decoder panicked: %v", ErrMalformed, m, p)
		}
	}()
	if err := m.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: %T: %w", ErrMalformed, m, err)
	}
	return nil
}

// skipTags returns b after its tag section, or b itself when it has none.
func skipTags(b []byte, has bool) ([]byte, error) {
	if !has {
		return b, nil
	}
	num, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	for ; num > 0; num-- { // each round takes at least two bytes of b, or ends the loop
		var size uint32
		if _, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: header tag of %d bytes, %d are left", ErrMalformed, size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned varint of at most 32 bits.
func uvarint(b []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<32-1 {
		return 0, nil, fmt.Errorf("%w: bad varint in the header's tags", ErrMalformed)
	}
	return uint32(v), b[n:], nil
}
