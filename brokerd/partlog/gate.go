package partlog

// gate is a mutex made of a channel. Its holders may wait for the disk, and a
// goroutine that waits for them must count as waiting: a test that runs on
// virtual time (testing/synctest) cannot see that of a sync.Mutex.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) lock()   { g <- struct{}{} }
func (g gate) unlock() { <-g }
