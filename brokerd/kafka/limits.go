package kafka

import "time"

// Limits bound what peers can make the server hold and wait for (I20). Zero values mean the defaults.
type Limits struct {
	// ConnectionsMax is how many connections are open at once; the next one is closed as soon as it is accepted. Default 10,000.
	ConnectionsMax int
	// RequestBytesMax caps a frame of the APIs that carry records (Kafka's socket.request.max.bytes). Default 100 MiB.
	RequestBytesMax int
	// SmallRequestBytesMax caps a frame of all other APIs. Default 4 MiB: the decoded form of a hostile request can be
	// 40 times as large as its frame.
	SmallRequestBytesMax int
	// FirstRequestBytesMax caps frames without records until a connection has sent one good request. Default 64 KiB.
	FirstRequestBytesMax int
	// InFlightBytesMax is how many bytes of requests are held at once (Kafka's queued.max.request.bytes). Connections wait
	// for room before they read more of a large frame. Default 256 MiB.
	InFlightBytesMax int64
	// FetchBytesMax caps the records in one answer to Fetch, whatever the client allows (Kafka's fetch.max.bytes). A single
	// larger record batch is still returned. Default 16 MiB.
	FetchBytesMax int
	// IdleTimeout closes a connection that sends nothing (Kafka's connections.max.idle.ms). Default 10 minutes.
	IdleTimeout time.Duration
	// FirstRequestTimeout replaces IdleTimeout until a connection has sent one good request. Default 30 s.
	FirstRequestTimeout time.Duration
	// TransferTimeout is the time in which a frame must pass, either way, once it has begun, besides one second for each
	// 64 KiB of it. Default 30 s.
	TransferTimeout time.Duration
}

// slowestBytesPerSecond is the slowest transfer that is tolerated for a large frame.
const slowestBytesPerSecond = 64 << 10

// withDefaults returns l with its zero values replaced.
func (l Limits) withDefaults() Limits {
	setDefault(&l.ConnectionsMax, 10_000)
	setDefault(&l.RequestBytesMax, 100<<20)
	setDefault(&l.SmallRequestBytesMax, 4<<20)
	setDefault(&l.FirstRequestBytesMax, 64<<10)
	setDefault(&l.InFlightBytesMax, 256<<20)
	setDefault(&l.FetchBytesMax, 16<<20)
	setDefault(&l.IdleTimeout, 10*time.Minute)
	setDefault(&l.FirstRequestTimeout, 30*time.Second)
	setDefault(&l.TransferTimeout, 30*time.Second)
	return l
}

// setDefault sets *v when it is zero.
func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// transferTime is how long a frame of size bytes may take to arrive or to leave.
func (l Limits) transferTime(size int) time.Duration {
	return l.TransferTimeout + time.Duration(size/slowestBytesPerSecond)*time.Second
}
