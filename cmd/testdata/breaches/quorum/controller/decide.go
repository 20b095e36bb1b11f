// Package controller waits, and knows Raft.
package controller

import (
	"time"

	"github.com/hashicorp/raft" // want depguard depguard
)

// Decide waits for a while.
func Decide() int {
	time.Sleep(time.Second) // want forbidigo
	return raft.Term
}
