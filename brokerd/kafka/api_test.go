package kafka

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/wire"
)

// TestEveryAPIIsDocumented: the file of an API is named after its key, and its comment names key and versions as they are.
func TestEveryAPIIsDocumented(t *testing.T) {
	listed := map[string]bool{}
	for _, a := range allAPIs() {
		files, err := filepath.Glob(fmt.Sprintf("%02d_*.go", a.key))
		if err != nil || len(files) == 0 {
			t.Fatalf("key %d has no file: %v", a.key, err)
		}
		source, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		listed[files[0]] = true
		low, high := a.served.Min, a.served.Max
		header := regexp.MustCompile(fmt.Sprintf(`// [A-Za-z]+, key %d, versions? %d (to|and) %d[ ,.:]`, a.key, low, high))
		if !header.Match(source) {
			t.Errorf("%s: no comment says %q", files[0], header)
		}
	}
	numbered, err := filepath.Glob("[0-9][0-9]_*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range numbered {
		if !listed[f] && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("%s is not in the table", f)
		}
	}
}

// TestEveryAnswerHasTheVersionOfItsRequest: each API answers an empty request of each version with a body that parses as that version.
func TestEveryAnswerHasTheVersionOfItsRequest(t *testing.T) {
	for _, a := range allAPIs() {
		t.Run(kmsg.NameForKey(a.key), func(t *testing.T) {
			eachVersion(t, a.served, func(t *testing.T, version int16) {
				ts := newTestServer(t, nil)
				ts.controller.reserve = refuseReserve
				req := kmsg.RequestForKey(a.key)
				if p, ok := req.(*kmsg.ProduceRequest); ok {
					p.Acks = 1
				}
				if resp := ask[kmsg.Response](t, ts, req, version); resp.Key() != a.key || resp.GetVersion() != version {
					t.Fatalf("answer %T version %d", resp, resp.GetVersion())
				}
			})
		})
	}
}

// FuzzRequest gives each API bodies that nobody expects. What is answered must be an answer of that API and version to that
// request; what is not ends the connection.
func FuzzRequest(f *testing.F) {
	add := func(req kmsg.Request, version int16) {
		req.SetVersion(version)
		frame := wire.FormatRequest(req, "", 1)
		f.Add(req.Key(), version, frame[4+wire.RequestPrefixBytes+2:])
	}
	for _, a := range allAPIs() {
		add(kmsg.RequestForKey(a.key), a.served.Min)
		add(kmsg.RequestForKey(a.key), a.served.Max)
	}
	add(metadataFor("foo", "nope"), 9)
	add(fetchOf("foo", 7, 0, 0), 12)
	add(produceTo("foo", 0, -1, batchOf(f, recordbatch.BuildOptions{Codec: recordbatch.CodecGzip}, "a")), 9)
	add(offsetsOf("foo", 1, -3), 7)
	add(createRequest("bar"), 7)
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		ts := newTestServer(t, nil)
		ts.controller.create = creates(0)
		ts.controller.remove, ts.controller.reserve = refuseDelete, refuseReserve
		c := ts.pipe("PLAINTEXT")
		go func() {
			_, _ = c.Write(rawRequest(key, version, 77, "", body))
			ts.interruptReads()
		}()
		out, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range ts.logged.all() {
			if strings.Contains(line, "panic") {
				t.Fatal(line)
			}
		}
		if len(out) == 0 {
			return
		}
		checkAnswer(t, key, version, out)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := ts.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// checkAnswer parses the one answer in out.
func checkAnswer(t *testing.T, key, version int16, out []byte) {
	t.Helper()
	r := bytes.NewReader(out)
	frame, err := wire.ReadFrame(r, len(out))
	if err != nil || r.Len() > 0 {
		t.Fatalf("%d bytes behind the answer, %v", r.Len(), err)
	}
	if key == 18 && !apiVersionsAPI.served.Contains(version) {
		version = 0
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		t.Fatalf("key %d was answered", key)
	}
	req.SetVersion(version)
	resp := req.ResponseKind()
	if err := wire.ParseResponse(frame, resp, 77); err != nil {
		t.Fatal(err)
	}
	if again := wire.AppendResponse(nil, resp, 77); !bytes.Equal(again[4:], frame) {
		t.Fatalf("the answer %x encodes to %x", frame, again[4:])
	}
}
