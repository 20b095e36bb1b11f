package kafka

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

const (
	// adminTimeoutDefault replaces a timeout that a client left at zero or below.
	adminTimeoutDefault = 30 * time.Second
	// adminTimeoutMax bounds what a client may ask for.
	adminTimeoutMax = 5 * time.Minute
	// anonymous is the principal of a connection that has not authenticated, as Kafka writes it.
	anonymous = "User:ANONYMOUS"
)

// requestContext says to the controller on whose behalf a request of the given kind is made.
func (c *call) requestContext(kind string, timeout time.Duration) *controllerv1.RequestContext {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: crypto/rand ends the process instead
	return &controllerv1.RequestContext{
		RequestId: id,
		Cause:     &metadatav1.Cause{Principal: anonymous, ClientAddress: c.peer, RequestKind: kind},
		TimeoutMs: timeout.Milliseconds(),
	}
}

// adminTimeout turns the timeout of a request into one that we keep.
func adminTimeout(timeoutMillis int32) time.Duration {
	if timeoutMillis <= 0 {
		return adminTimeoutDefault
	}
	return min(time.Duration(timeoutMillis)*time.Millisecond, adminTimeoutMax)
}

// awaitMetadata waits until this broker's image shows what the controller answered, so that the client reads its own
// write here. When the deadline comes first the change is committed all the same, and the answer says so.
func (s *Server) awaitMetadata(ctx context.Context, metadataOffset int64) {
	if err := s.config.Await(ctx, metadataOffset); err != nil {
		s.hostile.warn("answering before the broker's own metadata shows the change", "metadata_offset", metadataOffset, "error", err)
	}
}

// messageOf returns the text of an error for fields that are null when there is none.
func messageOf(text string) *string {
	if text == "" {
		return nil
	}
	return kmsg.StringPtr(text)
}
