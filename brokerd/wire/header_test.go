package wire

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRequestRoundTripsAtEveryVersion(t *testing.T) {
	for key := range int16(93) {
		first := kmsg.RequestForKey(key)
		if first == nil || key == 7 { // ControlledShutdown v0 has a header of its own, and nobody sends it any more
			continue
		}
		for version := range first.MaxVersion() + 1 {
			t.Run(fmt.Sprintf("%s v%d", first, version), func(t *testing.T) {
				checkRoundTrip(t, key, version)
			})
		}
	}
}

// checkRoundTrip sends an empty request and an empty answer through the codec.
func checkRoundTrip(t *testing.T, key, version int16) {
	t.Helper()
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	frame := FormatRequest(req, "someone", 42)[sizeBytes:]
	h, rest, err := ParseRequestHeader(frame)
	if want := (RequestHeader{key, version, 42, "someone"}); err != nil || h != want {
		t.Fatalf("header %+v, %v, want %+v", h, err, want)
	}
	got := kmsg.RequestForKey(key)
	got.SetVersion(version)
	if err := DecodeRequest(got, rest); err != nil {
		t.Fatal(err)
	}
	if again := FormatRequest(got, "someone", 42)[sizeBytes:]; !reflect.DeepEqual(again, frame) {
		t.Fatalf("encoded again %x, first %x", again, frame)
	}
	resp := req.ResponseKind()
	answer := AppendResponse(nil, resp, 42)
	if err := ParseResponse(answer[sizeBytes:], req.ResponseKind(), 42); err != nil {
		t.Fatal(err)
	}
}

// TestApiVersionsAnswerHasNoTags: a client reads it before it knows what the broker speaks (KIP-511).
func TestApiVersionsAnswerHasNoTags(t *testing.T) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(3)
	resp.ErrorCode = 35
	if b := AppendResponse(nil, resp, 1); b[8] != 0 || b[9] != 35 {
		t.Fatalf("the error code does not follow the correlation id: %x", b)
	}
}

func TestParseRequestHeaderRefuses(t *testing.T) {
	tests := map[string][]byte{
		"nothing":            {},
		"no correlation id":  {0, 3, 0, 9, 0, 0},
		"no client id":       {0, 3, 0, 9, 0, 0, 0, 1, 0},
		"client id too long": {0, 3, 0, 9, 0, 0, 0, 1, 0x7f, 0xff, 'a'},
	}
	for name, frame := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := ParseRequestHeader(frame); !errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v, want %v", err, ErrMalformed)
			}
		})
	}
	h, rest, err := ParseRequestHeader([]byte{0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 5})
	if err != nil || h.ClientID != "" || len(rest) != 1 {
		t.Fatalf("null client id: %+v, %x, %v", h, rest, err)
	}
}

func TestHeaderTags(t *testing.T) {
	tests := map[string]struct {
		in   []byte
		left int // -1: refused
	}{
		"none":                      {[]byte{0, 9}, 1},
		"two":                       {[]byte{2, 0, 1, 0xaa, 1, 0, 9}, 1},
		"four billion promised":     {[]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}, -1},
		"tag longer than the frame": {[]byte{1, 0, 5, 1}, -1},
		"varint without end":        {[]byte{0xff, 0xff}, -1},
		"varint of 64 bits":         {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, -1},
		"nothing":                   {nil, -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rest, err := skipTags(tt.in, true)
			if tt.left < 0 {
				if !errors.Is(err, ErrMalformed) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || len(rest) != tt.left {
				t.Fatalf("%d bytes left, %v", len(rest), err)
			}
		})
	}
}

// FuzzRequest: whatever decodes encodes to something that decodes to the same bytes again.
func FuzzRequest(f *testing.F) {
	for _, key := range []int16{0, 1, 2, 3, 10, 18, 19, 20, 22, 23, 32, 60} {
		req := kmsg.RequestForKey(key)
		for _, version := range []int16{0, req.MaxVersion() / 2, req.MaxVersion()} {
			req.SetVersion(version)
			f.Add(key, version, FormatRequest(req, "c", 1)[sizeBytes+RequestPrefixBytes+3:])
		}
	}
	f.Add(int16(18), int16(3), []byte{0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() {
			return
		}
		req.SetVersion(version)
		if err := DecodeRequest(req, body); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v is not %v", err, ErrMalformed)
			}
			return
		}
		once := req.AppendTo(nil)
		again := kmsg.RequestForKey(key)
		again.SetVersion(version)
		if err := again.ReadFrom(once); err != nil {
			t.Fatalf("what was decoded does not encode to what decodes: %v", err)
		}
	})
}
