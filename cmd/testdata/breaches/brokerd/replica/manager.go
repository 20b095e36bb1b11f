package replica

import "time"

// Started asks the clock in the shell, which is right.
func Started() time.Time { return time.Now() }
