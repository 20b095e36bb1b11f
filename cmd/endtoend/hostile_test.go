package endtoend

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/bench"
	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
)

const (
	// hostileConnections are made to each kind of port: brokers, quorum nodes, admin servers.
	hostileConnections = 1000
	// hostileAtOnce of them are open at a time.
	hostileAtOnce = 50
	// hostileGrowth bounds what the connections may leave behind in a process.
	hostileGrowth = 20 << 20
	// hostileWithin bounds one connection: a peer that is not heard must be let go by then.
	hostileWithin = 30 * time.Second
)

// payload is what one hostile peer sends. Half means that it then says nothing more and waits to be let go.
type payload struct {
	name  string
	bytes func(dice *rand.Rand) []byte
	half  bool
}

var payloads = []payload{
	{name: "garbage", bytes: func(d *rand.Rand) []byte { return random(d, 1+d.IntN(4096)) }},
	{name: "nothing", bytes: func(*rand.Rand) []byte { return nil }},
	{name: "half a size", bytes: func(*rand.Rand) []byte { return []byte{0, 0} }},
	{name: "half a frame", bytes: func(d *rand.Rand) []byte { return append(size(1000), random(d, 100)...) }, half: true},
	{name: "2 GiB", bytes: func(d *rand.Rand) []byte { return append(size(1<<31-1), random(d, 4096)...) }},
	{name: "negative size", bytes: func(*rand.Rand) []byte { return size(1 << 31) }},
	{name: "largest allowed size and no body", bytes: func(*rand.Rand) []byte {
		return append(size(100<<20), 0, 0, 0, 9, 0, 0, 0, 1) // Produce 9
	}, half: true},
	{name: "ApiVersions with 2^32-1 tags", bytes: func(*rand.Rand) []byte {
		body := []byte{0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f}
		return append(size(uint32(len(body))), body...)
	}},
	{name: "Metadata with 2^31-1 topics", bytes: func(*rand.Rand) []byte {
		body := []byte{0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff}
		return append(size(uint32(len(body))), body...)
	}},
	{name: "unknown key", bytes: func(*rand.Rand) []byte { return append(size(10), 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff) }},
	{name: "TLS", bytes: func(d *rand.Rand) []byte {
		return append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, random(d, 500)...)
	}},
	{name: "HTTP", bytes: func(*rand.Rand) []byte {
		return []byte("GET /" + string(bytes.Repeat([]byte("x"), 3000)) + " HTTP/1.1\r\nHost: x\r\n\r\n")
	}},
	{name: "HTTP/2 and garbage", bytes: func(d *rand.Rand) []byte {
		return append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), random(d, 1000)...)
	}},
	{name: "Raft and garbage", bytes: func(d *rand.Rand) []byte { return append([]byte{0xf5}, random(d, 1000)...) }},
	{name: "half a Raft preamble", bytes: func(*rand.Rand) []byte { return []byte{0xf5, 1} }, half: true},
}

func size(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func random(dice *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(dice.Uint32())
	}
	return out
}

// TestHostileBytesOnEveryPortDisturbNobody makes a thousand hostile connections to each kind of port while a producer
// runs. The producer sees no error and goes on, no process ends, and none keeps memory or descriptors.
func TestHostileBytesOnEveryPortDisturbNobody(t *testing.T) {
	cluster := proctest.Start(t, proctest.Options{})
	createTopic(t, cluster, "undisturbed", 6, 3)
	producer, err := verify.NewProducer(verify.ProducerOptions{Seeds: cluster.BootstrapServers(), Topic: "undisturbed", InFlight: 64, PerSecond: 1000, ValueBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	producing, stop := context.WithCancel(t.Context())
	defer stop()
	produced := make(chan error, 1)
	go func() { produced <- producer.Run(producing, t.Context()) }()
	awaitProgress(t, producer)
	warmUp(t, cluster)
	before := footprints(t, cluster)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	nodes := cluster.Nodes()
	for kind, addresses := range map[string][]string{"broker": portsOf(nodes, up.Broker), "quorum": portsOf(nodes, up.Quorum), "admin": adminPorts(nodes)} {
		hostile(t, kind, addresses, hostileConnections, rand.New(rand.NewPCG(seed, 1)))
		awaitProgress(t, producer)
	}

	awaitFootprints(t, cluster, before)
	stop()
	if err := <-produced; err != nil {
		t.Errorf("the producer was told of errors: %v", err)
	}
	checkKept(t, cluster, "undisturbed", producer.Acked())
}

func portsOf(nodes []up.Node, role string) []string {
	var out []string
	for _, n := range nodes {
		if n.Role == role {
			out = append(out, n.Addresses...)
		}
	}
	return out
}

func adminPorts(nodes []up.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Admin)
	}
	return out
}

// warmUp lets each process allocate once what it keeps for good: buffers, stacks, the first of everything.
func warmUp(t *testing.T, cluster *proctest.Cluster) {
	t.Helper()
	nodes := cluster.Nodes()
	dice := rand.New(rand.NewPCG(1, 2))
	hostile(t, "warm-up", append(append(portsOf(nodes, up.Broker), portsOf(nodes, up.Quorum)...), adminPorts(nodes)...), 10*len(payloads), dice)
}

// hostile makes n connections, spread over the addresses and the payloads, some at a time.
func hostile(t *testing.T, kind string, addresses []string, n int, dice *rand.Rand) {
	t.Helper()
	slots := make(chan struct{}, hostileAtOnce)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed []error
	for i := range n {
		p := payloads[i%len(payloads)]
		address := addresses[dice.IntN(len(addresses))]
		sent := p.bytes(dice)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := attack(address, sent, p.half); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, fmt.Errorf("%s, %s at %s: %w", p.name, kind, address, err))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
}

// attack sends the bytes. A peer of half a frame then waits to be let go, the others hang up when they were heard.
func attack(address string, sent []byte, half bool) error {
	conn, err := net.DialTimeout("tcp", address, hostileWithin)
	if err != nil {
		return fmt.Errorf("not even accepted: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(hostileWithin)); err != nil {
		return err
	}
	if _, err := conn.Write(sent); err != nil {
		return nil //nolint:nilerr // let go in the middle of it, which is its right
	}
	if half {
		if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
	} else if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return nil //nolint:nilerr // let go already
	}
	n, err := io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && !half {
		return fmt.Errorf("still open after %v, %d bytes answered", hostileWithin, n)
	}
	return nil
}

// footprint is what a process holds.
type footprint struct {
	pid         int
	resident    int64
	descriptors int
}

func footprints(t *testing.T, cluster *proctest.Cluster) map[string]footprint {
	t.Helper()
	out := map[string]footprint{}
	for _, n := range cluster.Nodes() {
		usage, err := bench.ReadUsage(n.PID)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.PID))
		if err != nil {
			t.Fatal(err)
		}
		out[n.Name] = footprint{n.PID, usage.ResidentBytes, len(entries)}
	}
	return out
}

// awaitFootprints waits until every process is the one it was, holds few descriptors more, and grew by little.
func awaitFootprints(t *testing.T, cluster *proctest.Cluster, before map[string]footprint) {
	t.Helper()
	const slack = 10 // the producer's and the brokers' own connections come and go
	proctest.Eventually(t, patience, "memory and descriptors are given back", func() error {
		for name, now := range footprints(t, cluster) {
			was := before[name]
			switch {
			case now.pid != was.pid:
				return fmt.Errorf("%s runs as pid %d, and was %d: it ended", name, now.pid, was.pid)
			case now.descriptors > was.descriptors+slack:
				return fmt.Errorf("%s holds %d descriptors, and held %d", name, now.descriptors, was.descriptors)
			case now.resident > was.resident+hostileGrowth:
				return fmt.Errorf("%s grew from %d to %d MiB", name, was.resident>>20, now.resident>>20)
			}
		}
		return nil
	})
	for name, now := range footprints(t, cluster) {
		t.Logf("%s: resident %d -> %d KiB, descriptors %d -> %d", name, before[name].resident>>10, now.resident>>10, before[name].descriptors, now.descriptors)
	}
}
