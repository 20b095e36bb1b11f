// Package partlog imports more than the standard library.
package partlog

import (
	"github.com/skiffmq/skiff/brokerd/replica" // want depguard
)

// Size is anything to use.
const Size = replica.Lag
