// Package fsm breaks the rules of a pure package.
package fsm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/skiffmq/skiff/quorum/feed" // want depguard
)

// Kind is a record kind.
type Kind int

// The kinds.
const (
	KindA Kind = iota
	KindB
)

// Now asks the clock.
func Now() time.Time { return time.Now() } // want forbidigo

// Roll throws dice.
func Roll() int { return rand.IntN(feed.Size) } // want forbidigo

// Fair throws dice that were given, which is right.
func Fair(r *rand.Rand) int { return r.IntN(6) }

// Pid looks around.
func Pid() int { return os.Getpid() } // want forbidigo

// Print speaks to nobody.
func Print() { fmt.Println("x") } // want forbidigo

// Locked waits.
type Locked struct {
	mu sync.Mutex // want forbidigo
}

// Lock waits.
func (l *Locked) Lock() { l.mu.Lock() }

// Word forgets a kind.
func Word(k Kind) string {
	switch k { // want exhaustive
	case KindA:
		return "a"
	default:
		return "?"
	}
}
