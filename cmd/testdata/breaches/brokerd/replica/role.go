// Package replica has a pure core and a shell.
package replica

import "time"

// Lag is anything to use.
const Lag = 1

// Late asks the clock in the pure core.
func Late(t time.Time) bool { return time.Since(t) > time.Second } // want forbidigo
