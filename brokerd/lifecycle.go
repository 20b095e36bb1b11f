package brokerd

import "time"

// State of a broker's life, named as Kafka names them.
type State uint8

const (
	// StateStarting: not registered yet, or the metadata has not reached the registration.
	StateStarting State = iota
	// StateRecovery: the metadata is caught up; logs are opened; the controller still has the broker fenced.
	StateRecovery
	// StateRunning: unfenced, serving.
	StateRunning
	// StatePendingControlledShutdown: leaderships are being handed over.
	StatePendingControlledShutdown
	// StateShuttingDown: the controller needs nothing more of this process, or it was waited for long enough.
	StateShuttingDown
)

// String is Kafka's name of the state.
func (s State) String() string {
	switch s {
	case StateStarting:
		return "STARTING"
	case StateRecovery:
		return "RECOVERY"
	case StateRunning:
		return "RUNNING"
	case StatePendingControlledShutdown:
		return "PENDING_CONTROLLED_SHUTDOWN"
	case StateShuttingDown:
		return "SHUTTING_DOWN"
	default:
		return "UNKNOWN"
	}
}

// eagerInterval is the pause between heartbeats while the controller's next answer is what everything waits for.
const eagerInterval = 50 * time.Millisecond

// lifecycle is where a broker stands and what it says next. It is a value without clock or I/O; each event returns
// the next one.
type lifecycle struct {
	state State
	// epoch is the broker epoch of the registration, -1 while there is none that counts.
	epoch int64
	// ready tells that logs are open and the listeners serve.
	ready bool
}

func newLifecycle() lifecycle { return lifecycle{state: StateStarting, epoch: -1} }

// mustRegister tells whether the next thing to do is to register.
func (l lifecycle) mustRegister() bool { return l.epoch < 0 && l.state < StateShuttingDown }

// registered: the controller gave us a broker epoch.
func (l lifecycle) registered(epoch int64) lifecycle {
	l.epoch = epoch
	return l
}

// caughtUp: our image holds our own registration.
func (l lifecycle) caughtUp() lifecycle {
	if l.state == StateStarting {
		l.state = StateRecovery
	}
	return l
}

// nowReady: roles are taken, logs are open, clients can be served.
func (l lifecycle) nowReady() lifecycle {
	l.ready = true
	return l
}

// stale: the controller no longer knows our registration. The process registers again under its incarnation; what
// its image says of it stays true until the new registration arrives there.
func (l lifecycle) stale() lifecycle {
	l.epoch = -1
	if l.state == StateRunning {
		l.state = StateRecovery
	}
	return l
}

// answered: the controller wants us fenced or not, and lets us go or not.
func (l lifecycle) answered(isFenced, shouldShutDown bool) lifecycle {
	switch {
	case l.state == StatePendingControlledShutdown && shouldShutDown:
		l.state = StateShuttingDown
	case l.state == StateRecovery && !isFenced:
		l.state = StateRunning
	case l.state == StateRunning && isFenced:
		l.state = StateRecovery
	}
	return l
}

// stop: this process is asked to end. One that was never unfenced leads nothing and need not wait.
func (l lifecycle) stop() lifecycle {
	switch l.state {
	case StateRunning:
		l.state = StatePendingControlledShutdown
	case StateStarting, StateRecovery:
		l.state = StateShuttingDown
	case StatePendingControlledShutdown, StateShuttingDown:
	}
	return l
}

// waitedEnough: the controller did not let us go in time.
func (l lifecycle) waitedEnough() lifecycle {
	l.state = StateShuttingDown
	return l
}

// heartbeat is what the next heartbeat says besides who we are.
type heartbeat struct{ wantFence, wantShutDown bool }

// says tells the next heartbeat: we want to be fenced until we are ready to serve, and to stop once we were asked to.
func (l lifecycle) says() heartbeat {
	stopping := l.state >= StatePendingControlledShutdown
	return heartbeat{wantFence: !stopping && (!l.ready || l.state == StateStarting), wantShutDown: stopping}
}

// eager tells whether the next answer is waited for: to be unfenced, or to be let go.
func (l lifecycle) eager() bool {
	return (l.state == StateRecovery && l.ready) || l.state == StatePendingControlledShutdown
}
