package kafka

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, func(c *Config) { c.Limits.ConnectionsMax = 2 })
		c := ts.conn(t)
		req := fetchOf("foo", 7, 0, 0)
		req.MaxWaitMillis = 2_000
		req.SetVersion(12)
		for range 3 {
			if _, err := c.Request(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		broken := ts.pipe("PLAINTEXT")
		if _, err := io.ReadAll(ts.pipe("PLAINTEXT")); err != nil { // one too many
			t.Fatal(err)
		}
		_, _ = broken.Write(frameOf(1<<31 - 1))
		_, _ = io.ReadAll(broken)
		synctest.Wait()
		got := ts.Stats()
		if got.Connections != 1 || got.ConnectionsRefused != 1 || got.ConnectionsBroken != 1 || got.InFlightBytes != 0 {
			t.Fatalf("%+v", got)
		}
		for _, a := range got.APIs {
			if a.Name == "Fetch" && (a.Requests != 3 || a.Time != 6*time.Second) {
				t.Fatalf("%+v", a)
			}
			if a.Name == "Produce" && a.Requests != 0 {
				t.Fatalf("%+v", a)
			}
		}
	})
}
