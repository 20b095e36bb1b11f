package replica

import (
	"fmt"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
)

// retain deletes segments that the topic's retention no longer keeps, never at or above the high watermark.
func (p *Partition) retain(now time.Time) error {
	p.mu.Lock()
	s, high, failed := p.settings, p.highWatermark(), p.failed
	p.mu.Unlock()
	if failed != nil {
		return nil
	}
	if _, err := p.log.Retain(partlog.RetentionPolicy{Bytes: s.RetentionBytes, Age: s.Retention, UpTo: high}, now); err != nil {
		return fmt.Errorf("retain %s: %w", p.name(), err)
	}
	return nil
}
