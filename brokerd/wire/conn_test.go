package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// served returns a Conn whose other end answers each request frame with what serve returns; nil means no answer.
func served(t *testing.T, opts Options, serve func(frame []byte) []byte) *Conn {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		for {
			frame, err := ReadFrame(server, 1<<20)
			if err != nil {
				return
			}
			if answer := serve(frame); answer != nil {
				if _, err := server.Write(answer); err != nil {
					return
				}
			}
		}
	}()
	c := NewConn(client, opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// metadataRequest is an arbitrary request of a flexible version.
func metadataRequest() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	return req
}

// answerTo answers the Metadata request in frame with the given node id as controller.
func answerTo(t *testing.T, frame []byte, controller int32) []byte {
	t.Helper()
	h, _, err := ParseRequestHeader(frame)
	if err != nil {
		t.Error(err)
		return nil
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(h.Version)
	resp.ControllerID = controller
	return AppendResponse(nil, resp, h.CorrelationID)
}

func TestConnAnswersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n int32
		c := served(t, Options{ClientID: "broker-2"}, func(frame []byte) []byte {
			h, _, err := ParseRequestHeader(frame)
			if err != nil || h.ClientID != "broker-2" || h.Key != 3 || h.Version != 9 {
				t.Errorf("header %+v, %v", h, err)
			}
			n++
			return answerTo(t, frame, n)
		})
		for want := int32(1); want <= 3; want++ {
			resp, err := c.Request(t.Context(), metadataRequest())
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.(*kmsg.MetadataResponse).ControllerID; got != want {
				t.Fatalf("answer %d, want %d", got, want)
			}
		}
	})
}

func TestConnClosesOnAnyProtocolError(t *testing.T) {
	tests := map[string]func(t *testing.T, frame []byte) []byte{
		"answer to another request": func(t *testing.T, frame []byte) []byte {
			b := answerTo(t, frame, 1)
			binary.BigEndian.PutUint32(b[4:], 77)
			return b
		},
		"frame above the limit": func(*testing.T, []byte) []byte { return []byte{0x7f, 0xff, 0xff, 0xff} },
		"negative frame":        func(*testing.T, []byte) []byte { return []byte{0xff, 0xff, 0xff, 0xff} },
		"short body":            func(*testing.T, []byte) []byte { return []byte{0, 0, 0, 5, 0, 0, 0, 1, 0} },
		"no header":             func(*testing.T, []byte) []byte { return []byte{0, 0, 0, 2, 0, 0} },
	}
	for name, serve := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := served(t, Options{}, func(frame []byte) []byte { return serve(t, frame) })
				if _, err := c.Request(t.Context(), metadataRequest()); err == nil || errors.Is(err, ErrConnClosed) {
					t.Fatalf("first request: %v", err)
				}
				if _, err := c.Request(t.Context(), metadataRequest()); !errors.Is(err, ErrConnClosed) {
					t.Fatalf("request after the error: %v, want %v", err, ErrConnClosed)
				}
			})
		})
	}
}

func TestConnEndsWithItsContext(t *testing.T) {
	silent := func([]byte) []byte { return nil }
	tests := map[string]struct {
		opts  Options
		ctx   func() (context.Context, context.CancelFunc)
		after time.Duration
	}{
		"deadline": {Options{}, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 3*time.Second)
		}, 3 * time.Second},
		"cancel": {Options{}, func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}, 2 * time.Second},
		"own timeout": {Options{Timeout: 5 * time.Second}, func() (context.Context, context.CancelFunc) {
			return context.WithCancel(context.Background())
		}, 5 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := served(t, tt.opts, silent)
				ctx, cancel := tt.ctx()
				defer cancel()
				start := time.Now()
				_, err := c.Request(ctx, metadataRequest())
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
					t.Fatalf("got %v", err)
				}
				if waited := time.Since(start); waited != tt.after {
					t.Fatalf("waited %s, want %s", waited, tt.after)
				}
				if _, err := c.Request(context.Background(), metadataRequest()); !errors.Is(err, ErrConnClosed) {
					t.Fatalf("after: %v", err)
				}
			})
		})
	}
}

func TestConnCloseEndsRequestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := served(t, Options{}, func([]byte) []byte { return nil })
		errs := make(chan error)
		for range 2 { // one in flight, one waiting for its turn
			go func() {
				_, err := c.Request(context.Background(), metadataRequest())
				errs <- err
			}()
		}
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrConnClosed) {
				t.Fatalf("got %v, want %v", err, ErrConnClosed)
			}
		}
	})
}

func TestConnRefusesProduceWithoutAnswer(t *testing.T) {
	c := served(t, Options{}, func([]byte) []byte { return nil })
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(9)
	req.Acks = 0
	if _, err := c.Request(t.Context(), req); !errors.Is(err, errNoAnswer) {
		t.Fatalf("got %v", err)
	}
}

func TestDialUsesTheGivenNetwork(t *testing.T) {
	refused := errors.New("link is down")
	_, err := Dial(t.Context(), "broker-7:9092", Options{Dial: func(_ context.Context, address string) (net.Conn, error) {
		if address != "broker-7:9092" {
			t.Errorf("dialed %s", address)
		}
		return nil, refused
	}})
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "broker-7:9092") {
		t.Fatalf("got %v", err)
	}
}
