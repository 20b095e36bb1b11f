package active

import (
	"time"

	"github.com/skiffmq/skiff/quorum/controller"
)

// recovery is the Core's part in the elections from inventories.
type recovery struct {
	// inventories are written only between decisions.
	inventories *controller.Inventories
	// due tells that an election may have become possible, running that the last run is on its way.
	due, running bool
}

// begin forgets what the last controller may have known: brokers report again at a new claim.
func (r *recovery) begin(now time.Time) {
	r.inventories.Reset(now)
	r.due, r.running = false, false
}

// keep takes in what a decision learned of inventories.
func (r *recovery) keep(write func(*controller.Inventories)) {
	if write != nil {
		write(r.inventories)
		r.due = true
	}
}

// electInventoried has leaders elected of the partitions whose replicas have all reported, run after run until none is
// left. A run follows a report, and a change of the brokers, which may be up now.
func (c *Core) electInventoried() {
	r := &c.recovery
	img := c.cfg.Image()
	if !r.due || r.running || !c.active() || img == nil {
		return
	}
	r.due = false
	if img.NumAwaiting() == 0 {
		return
	}
	r.running = true
	c.addDuty("ElectFromInventories", routinely(controller.ElectFromInventories), func(out Outcome) {
		r.running = false
		if more, ok := out.Reply.(bool); ok && more {
			r.due = true
		}
	})
}
