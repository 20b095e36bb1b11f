// Package feed calls a broker.
package feed

import (
	"github.com/skiffmq/skiff/brokerd/partlog" // want depguard
)

// Size is anything to use.
const Size = partlog.Size
