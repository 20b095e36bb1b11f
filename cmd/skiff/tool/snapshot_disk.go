package tool

import (
	"context"

	"github.com/skiffmq/skiff/cmd/config"
)

// offline saves from the disk of a node that is stopped.
func (s *saving) offline(context.Context, *snapshotSink) (saved, error) {
	return saved{}, config.Failed("", "--data-dir is not ready")
}
