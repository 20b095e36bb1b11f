// Package lifecycle is where a broker stands in its life and what its next heartbeat says: Kafka's BrokerLifecycleManager
// without its clock, queue and network. It is pure; the session of brokerd drives it, and so does the simulator.
package lifecycle

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

// EagerInterval is the pause between heartbeats while the controller's next answer is what everything waits for.
const EagerInterval = 50 * time.Millisecond

// Life is where a broker stands and what it says next. It is a value without clock or I/O; each event returns
// the next one.
type Life struct {
	// State names the stage.
	State State
	// Epoch is the broker epoch of the registration, -1 while there is none that counts.
	Epoch int64
	// Ready tells that logs are open and the listeners serve.
	Ready bool
}

// New is the life of a process that has just started.
func New() Life { return Life{State: StateStarting, Epoch: -1} }

// MustRegister tells whether the next thing to do is to register.
func (l Life) MustRegister() bool { return l.Epoch < 0 && l.State < StateShuttingDown }

// Registered takes note that the controller gave us a broker epoch.
func (l Life) Registered(epoch int64) Life {
	l.Epoch = epoch
	return l
}

// CaughtUp takes note that our image holds our own registration.
func (l Life) CaughtUp() Life {
	if l.State == StateStarting {
		l.State = StateRecovery
	}
	return l
}

// NowReady takes note that roles are taken and logs are open: clients can be served.
func (l Life) NowReady() Life {
	l.Ready = true
	return l
}

// Stale takes note that the controller no longer knows our registration. The process registers again under its incarnation; what
// its image says of it stays true until the new registration arrives there.
func (l Life) Stale() Life {
	l.Epoch = -1
	if l.State == StateRunning {
		l.State = StateRecovery
	}
	return l
}

// Answered takes note of whether the controller wants us fenced or not, and lets us go or not.
func (l Life) Answered(isFenced, shouldShutDown bool) Life {
	switch {
	case l.State == StatePendingControlledShutdown && shouldShutDown:
		l.State = StateShuttingDown
	case l.State == StateRecovery && !isFenced:
		l.State = StateRunning
	case l.State == StateRunning && isFenced:
		l.State = StateRecovery
	}
	return l
}

// Stop takes note that this process is asked to end. One that was never unfenced leads nothing and need not wait.
func (l Life) Stop() Life {
	switch l.State {
	case StateRunning:
		l.State = StatePendingControlledShutdown
	case StateStarting, StateRecovery:
		l.State = StateShuttingDown
	case StatePendingControlledShutdown, StateShuttingDown:
	}
	return l
}

// WaitedEnough takes note that the controller did not let us go in time.
func (l Life) WaitedEnough() Life {
	l.State = StateShuttingDown
	return l
}

// Heartbeat is what the next heartbeat says besides who we are.
type Heartbeat struct{ WantFence, WantShutDown bool }

// Says tells the next heartbeat: we want to be fenced until we are ready to serve, and to stop once we were asked to.
func (l Life) Says() Heartbeat {
	stopping := l.State >= StatePendingControlledShutdown
	return Heartbeat{WantFence: !stopping && (!l.Ready || l.State == StateStarting), WantShutDown: stopping}
}

// Eager tells whether the next answer is waited for: to be unfenced, or to be let go.
func (l Life) Eager() bool {
	return (l.State == StateRecovery && l.Ready) || l.State == StatePendingControlledShutdown
}
