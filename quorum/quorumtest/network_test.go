package quorumtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// connected gives both ends of a connection from a to b.
func connected(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	l, err := n.Host("b").Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	near, err = n.Host("a").Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return near, <-accepted
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, want string) time.Duration {
	t.Helper()
	start, got := time.Now(), make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
	return time.Since(start)
}

func TestBytesArriveInOrderAndThenTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := connected(t, NewNetwork())
		send(t, near, "hello ")
		send(t, near, "world")
		near.Close()
		receive(t, far, "hello world")
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want EOF", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	})
}

func TestCutHoldsBytesBackInOneDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		near, far := connected(t, n)
		n.Cut("a", "b")
		send(t, near, "held")
		send(t, far, "back")
		receive(t, near, "back")
		if err := far.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v across the cut", err)
		}
		if err := far.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			n.Heal("a", "b")
		}()
		if took := receive(t, far, "held"); took != time.Second {
			t.Errorf("it arrived after %s", took)
		}
	})
}

func TestDelayIsOfOneDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		near, far := connected(t, n)
		n.Delay("a", "b", 70*time.Millisecond)
		send(t, near, "slow")
		send(t, far, "fast")
		if took := receive(t, near, "fast"); took != 0 {
			t.Errorf("fast took %s", took)
		}
		if took := receive(t, far, "slow"); took != 70*time.Millisecond {
			t.Errorf("slow took %s", took)
		}
	})
}

func TestDialIsRefusedHangsOrTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a := n.Host("a")
		if _, err := a.Dial(t.Context(), "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: %v", err)
		}
		n.Cut("b", "a") // the answer cannot come back
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := a.Dial(ctx, "b:1"); err == nil || time.Since(start) != 3*time.Second {
			t.Errorf("across a cut: %v after %s", err, time.Since(start))
		}
		if _, err := n.Host("b").Listen(7); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Host("b").Listen(7); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a taken port: %v", err)
		}
	})
}

func TestResetBreaksBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		near, far := connected(t, n)
		n.Reset("b")
		for _, c := range []net.Conn{near, far} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v, want a reset", err)
			}
		}
	})
}

func TestWriterWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := connected(t, NewNetwork())
		if err := near.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		var err error
		sent := 0
		for err == nil {
			var w int
			w, err = near.Write(make([]byte, 64<<10))
			sent += w
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || sent > 2*halfBytesMax {
			t.Errorf("%d bytes were taken, then %v", sent, err)
		}
		if _, err := io.ReadFull(far, make([]byte, sent)); err != nil {
			t.Error(err)
		}
	})
}
