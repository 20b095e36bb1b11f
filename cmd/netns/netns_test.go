package netns_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/netns"
)

var nodes = []netns.Node{{Name: "a", ID: 1}, {Name: "b", ID: 2}, {Name: "c", ID: 103}}

// The test binary also runs inside namespaces, as a server or as a client, when one of these names an address.
const (
	serveAt = "NETNS_TEST_SERVE"
	dialTo  = "NETNS_TEST_DIAL"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(serveAt); address != "" {
		os.Exit(serve(address))
	}
	if address := os.Getenv(dialTo); address != "" {
		os.Exit(dial(address))
	}
	os.Exit(m.Run())
}

// serve sends every byte back until the process is killed.
func serve(address string) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return 1
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		go func() {
			for buf := make([]byte, 1); ; {
				if _, err := conn.Read(buf); err != nil {
					return
				}
				if _, err := conn.Write(buf); err != nil {
					return
				}
			}
		}()
	}
}

// dial connects once.
func dial(address string) int {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 1
	}
	conn.Close()
	return 0
}

// newNetwork makes a network for the test, or skips where that cannot be. Root is expected to be able to.
func newNetwork(t *testing.T) netns.Network {
	t.Helper()
	if err := netns.Possible(); err != nil {
		if os.Getenv("SKIFF_CI") != "" && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	n, err := netns.Create(t.Name(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Remove(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// inside is this binary in the namespace of a node.
func inside(n netns.Network, node, variable, address string) *exec.Cmd {
	line := n.Command(node, os.Args[0])
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+address)
	return cmd
}

// server starts a server in the namespace of a node and returns its address.
func server(t *testing.T, n netns.Network, node string, id int32) string {
	t.Helper()
	address := net.JoinHostPort(n.Address(id), "7007")
	cmd := inside(n, node, serveAt, address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it is waited for
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	return address
}

// reaches tells whether packets of a node reach another, and the answers the first.
func reaches(n netns.Network, node, address string) bool {
	return inside(n, node, dialTo, address).Run() == nil
}

func eventually(t *testing.T, what string, look func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !look(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// exchange sends a byte and reads it back.
func exchange(conn net.Conn, within time.Duration) bool {
	if conn.SetDeadline(time.Now().Add(within)) != nil {
		return false
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return false
	}
	_, err := conn.Read(make([]byte, 1))
	return err == nil
}

// TestACableThatIsUnplugged: what was connected is silent, not broken, and goes on when the cable is back.
func TestACableThatIsUnplugged(t *testing.T) {
	n := newNetwork(t)
	address := server(t, n, "a", 1)
	var conn net.Conn
	eventually(t, "a connection", func() (connected bool) {
		var err error
		conn, err = net.DialTimeout("tcp", address, time.Second)
		return err == nil
	})
	defer conn.Close()
	if !exchange(conn, 5*time.Second) {
		t.Fatal("nothing comes back")
	}
	if err := n.Unplug("a"); err != nil {
		t.Fatal(err)
	}
	if exchange(conn, 300*time.Millisecond) {
		t.Error("it answers without its cable")
	}
	if err := n.Heal("a"); err != nil {
		t.Fatal(err)
	}
	if !exchange(conn, 20*time.Second) {
		t.Error("the connection did not go on")
	}
}

// TestWhatIsDroppedIsDroppedBetweenTwoNodesAlone: neither of them reaches the other, since TCP needs both directions; every
// other pair does.
func TestWhatIsDroppedIsDroppedBetweenTwoNodesAlone(t *testing.T) {
	n := newNetwork(t)
	a, b := server(t, n, "a", 1), server(t, n, "b", 2)
	eventually(t, "a reaches b", func() bool { return reaches(n, "a", b) })
	eventually(t, "b reaches a", func() bool { return reaches(n, "b", a) })
	drop := func(from, to string) {
		t.Helper()
		if err := n.Drop(from, to); err != nil {
			t.Fatal(err)
		}
	}
	drop("a", "b")
	if reaches(n, "a", b) || reaches(n, "b", a) {
		t.Error("a connection without one direction")
	}
	if !reaches(n, "c", a) || !reaches(n, "c", b) {
		t.Error("a third node is cut off too")
	}
	if err := n.Pass("a", "b"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a reaches b again", func() bool { return reaches(n, "a", b) })
	drop("a", "b")
	drop("b", "a")
	drop("c", "b")
	if err := n.Heal("b"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "c reaches b after the healing", func() bool { return reaches(n, "c", b) })
	eventually(t, "a reaches b after the healing", func() bool { return reaches(n, "a", b) })
	if err := n.Drop("a", "nobody"); err == nil {
		t.Error("a node that is not there")
	}
}

// TestANetworkBelongsToItsOwner: another one cannot take its number, the same one can, whatever it left behind.
func TestANetworkBelongsToItsOwner(t *testing.T) {
	n := newNetwork(t)
	if err := n.Recreate("somebody else"); err == nil || !strings.Contains(err.Error(), t.Name()) {
		t.Errorf("%v: want an error that names the owner", err)
	}
	if err := n.Recreate(t.Name()); err != nil {
		t.Fatal(err)
	}
	if err := n.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := n.Remove(); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}
