package replica

// waitersMax bounds those who wait on one partition (I20). Each is a parked request, so connections bound them
// too; whoever finds no place is answered at once with what there is.
const waitersMax = 1 << 14

// waiter is a parked request. It may wait on many partitions and is woken by any of them; it then looks again.
type waiter struct {
	// wake has room for one: a second reason to look before the first look is no news.
	wake chan struct{}
}

func newWaiter() *waiter { return &waiter{wake: make(chan struct{}, 1)} }

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// waitFor says which news a waiter looks for. A change of role wakes everybody.
type waitFor uint8

const (
	forHigh waitFor = iota // the high watermark: consumers, producers with acks=all
	forEnd                 // the log end offset: followers
)

// waitList holds the waiters of one partition; Partition.mu guards it.
type waitList struct {
	waiting map[*waiter]waitFor
}

// add enlists w and returns false when the list is full.
func (l *waitList) add(w *waiter, news waitFor) bool {
	if len(l.waiting) >= waitersMax {
		return false
	}
	if l.waiting == nil {
		l.waiting = map[*waiter]waitFor{}
	}
	l.waiting[w] = news
	return true
}

func (l *waitList) remove(w *waiter) { delete(l.waiting, w) }

// wake wakes those who wait for the news.
func (l *waitList) wake(news waitFor) {
	for w, want := range l.waiting {
		if want == news {
			w.signal()
		}
	}
}

// wakeAll wakes everybody: the role changed.
func (l *waitList) wakeAll() {
	for w := range l.waiting {
		w.signal()
	}
}
