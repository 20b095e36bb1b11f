package active

// Shutdown ends the Core: it answers everybody who waits. Nothing but Settle comes out of it.
func (c *Core) Shutdown() []Effect {
	c.effects = nil
	c.leading = false
	c.refuseQueued("this node is stopping")
	if c.claim != nil {
		c.failClaim("this node is stopping")
	}
	if c.tip != nil {
		c.scatter(c.tip)
	}
	for _, f := range c.orphans {
		c.lose(f, "this node stopped before it was known")
	}
	c.claim, c.tip, c.orphans, c.phase = nil, nil, nil, Idle
	return c.effects
}
