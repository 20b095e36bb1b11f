package kafka

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/wire"
)

func TestApiVersionsListsTheTable(t *testing.T) {
	eachVersion(t, apiVersionsAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "some-client", "1.2.3"
		resp := ask[*kmsg.ApiVersionsResponse](t, ts, req, version)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(allAPIs()) {
			t.Fatalf("error %d, %d keys", resp.ErrorCode, len(resp.ApiKeys))
		}
		checkM1Range(t, resp.ApiKeys)
	})
}

// checkM1Range compares the table with what clients of all ages need to see.
func checkM1Range(t *testing.T, got []kmsg.ApiVersionsResponseApiKey) {
	t.Helper()
	want := map[int16]wire.VersionRange{
		0: {Min: 0, Max: 9}, 1: {Min: 4, Max: 12}, 2: {Min: 1, Max: 7}, 3: {Min: 0, Max: 13}, 10: {Min: 0, Max: 4}, 18: {Min: 0, Max: 4},
		19: {Min: 0, Max: 7}, 20: {Min: 0, Max: 6}, 22: {Min: 0, Max: 4}, 23: {Min: 2, Max: 4}, 32: {Min: 0, Max: 4}, 60: {Min: 0, Max: 2},
		33: {Min: 0, Max: 2}, 35: {Min: 1, Max: 4}, 37: {Min: 0, Max: 3}, 43: {Min: 0, Max: 2}, 44: {Min: 0, Max: 1}, 45: {Min: 0, Max: 1}, 46: {},
		48: {Min: 0, Max: 1}, 49: {Min: 0, Max: 1}, 55: {Min: 0, Max: 2}, 57: {Min: 0, Max: 2}, 64: {}, 75: {},
	}
	for _, k := range got {
		if w := want[k.ApiKey]; k.MinVersion != w.Min || k.MaxVersion != w.Max {
			t.Errorf("%s: %d to %d, want %d to %d", kmsg.NameForKey(k.ApiKey), k.MinVersion, k.MaxVersion, w.Min, w.Max)
		}
		delete(want, k.ApiKey)
	}
	for key := range want {
		t.Errorf("%s is missing", kmsg.NameForKey(key))
	}
}

// TestNeverAdvertised: clients begin a protocol when they see its key.
func TestNeverAdvertised(t *testing.T) {
	for _, a := range allAPIs() {
		if slices.Contains([]int16{38, 39, 40, 41, 68, 71, 72, 76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92}, a.key) {
			t.Errorf("%s is advertised", kmsg.NameForKey(a.key))
		}
		if req := kmsg.RequestForKey(a.key); req == nil || req.MaxVersion() < a.served.Max {
			t.Errorf("key %d: version %d is beyond the codec", a.key, a.served.Max)
		}
	}
}

// TestApiVersionsOfTheFuture sends what a client of a later Kafka would: a version nobody knows, with a body nobody can parse.
// It must be answered in version 0, with error 35 and the whole table, so that the client can go on with a version it
// finds there (KIP-511).
func TestApiVersionsOfTheFuture(t *testing.T) {
	for _, version := range []int16{5, 9, 32767, -1} {
		ts := newTestServer(t, nil)
		c := ts.pipe("PLAINTEXT")
		body := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		writeRaw(t, c, 18, version, 77, "future", body)
		resp := kmsg.NewPtrApiVersionsResponse()
		readRaw(t, c, resp, 77)
		if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != len(allAPIs()) {
			t.Fatalf("v%d: error %d, %d keys", version, resp.ErrorCode, len(resp.ApiKeys))
		}
		// The connection lives: the client tries again with what it found.
		writeRaw(t, c, 18, 0, 78, "future", nil)
		readRaw(t, c, resp, 78)
		if resp.ErrorCode != 0 {
			t.Fatalf("v0 afterwards: error %d", resp.ErrorCode)
		}
	}
}

func TestApiVersionsWantsASoftwareName(t *testing.T) {
	tests := map[string]struct {
		name, version string
		want          int16
	}{
		"good":                {"apache-kafka-java", "4.0.0", 0},
		"one letter":          {"x", "1", 0},
		"empty name":          {"", "1", kerr.InvalidRequest.Code},
		"empty version":       {"x", "", kerr.InvalidRequest.Code},
		"ends with a dash":    {"x-", "1", kerr.InvalidRequest.Code},
		"has a space":         {"x y", "1", kerr.InvalidRequest.Code},
		"line break":          {"x\n", "1", kerr.InvalidRequest.Code},
		"version with quotes": {"x", `"1"`, kerr.InvalidRequest.Code},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = tt.name, tt.version
			if resp := ask[*kmsg.ApiVersionsResponse](t, newTestServer(t, nil), req, 3); resp.ErrorCode != tt.want {
				t.Fatalf("error %d, want %d", resp.ErrorCode, tt.want)
			}
		})
	}
}

// writeRaw sends a request with an arbitrary body.
func writeRaw(t *testing.T, c net.Conn, key, version int16, correlationID int32, clientID string, body []byte) {
	t.Helper()
	if _, err := c.Write(rawRequest(key, version, correlationID, clientID, body)); err != nil {
		t.Fatal(err)
	}
}

// rawRequest is the frame of a request with an arbitrary body.
func rawRequest(key, version int16, correlationID int32, clientID string, body []byte) []byte {
	var b []byte
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlationID))
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	b = append(append(b, clientID...), body...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// readRaw reads one answer.
func readRaw(t *testing.T, c net.Conn, resp kmsg.Response, correlationID int32) {
	t.Helper()
	frame, err := wire.ReadFrame(c, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.ParseResponse(frame, resp, correlationID); err != nil {
		t.Fatal(err)
	}
}
