package admin

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serve runs a server on a free port for the length of the test.
func serve(t *testing.T, a Admin) string {
	t.Helper()
	listeners, err := Listen([]string{"127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(listeners[0], a)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return "http://" + s.Addr()
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := (&http.Client{Timeout: 10 * time.Second}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func TestReadyTellsTheReason(t *testing.T) {
	ready, reason := false, "waiting for a leader"
	url := serve(t, Admin{
		Ready:  func() (bool, string) { return ready, reason },
		Checks: func() []Check { return []Check{{Name: "store", OK: true}, {Name: "leader", Reason: "none known"}} },
	})
	for _, route := range []string{"/readyz", "/healthz"} {
		if code, body := get(t, url+route); code != http.StatusServiceUnavailable || body != "waiting for a leader\n" {
			t.Errorf("%s: %d %q", route, code, body)
		}
	}
	if code, body := get(t, url+"/livez"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("live while not ready: %d %q", code, body)
	}
	if _, body := get(t, url+"/readyz?verbose"); body != "[+]store ok\n[-]leader failed: none known\nwaiting for a leader\n" {
		t.Errorf("verbose: %q", body)
	}
	ready = true
	if code, body := get(t, url+"/readyz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("ready: %d %q", code, body)
	}
}

func TestStatusLeavesTheOtherRoleOut(t *testing.T) {
	url := serve(t, Admin{Status: func() any {
		return Status{Role: "broker", NodeID: 1, PID: 42, BrokerStatus: &BrokerStatus{State: "RUNNING", BrokerEpoch: 7}}
	}})
	code, body := get(t, url+"/status")
	if code != http.StatusOK || strings.Contains(body, "raft_state") || !strings.Contains(body, `"broker_epoch": 7`) {
		t.Errorf("%d %s", code, body)
	}
	var status Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	if status.PID != 42 || status.BrokerStatus == nil || status.State != "RUNNING" {
		t.Errorf("got %+v", status)
	}
}

func TestMetricsAreServed(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "skiff_test_value", Help: "A value."})
	registry.MustRegister(gauge)
	gauge.Set(3)
	url := serve(t, Admin{Registry: registry})
	if code, body := get(t, url+"/metrics"); code != http.StatusOK || !strings.Contains(body, "skiff_test_value 3") {
		t.Errorf("%d %s", code, body)
	}
}

func TestEmptyAdminAnswers(t *testing.T) {
	url := serve(t, Admin{})
	for route, want := range map[string]int{"/livez": 200, "/readyz": 200, "/status": 200, "/metrics": 200, "/else": 404} {
		if code, _ := get(t, url+route); code != want {
			t.Errorf("%s: %d, want %d", route, code, want)
		}
	}
}

func TestCloseLetsARequestInFlightEnd(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	listeners, err := Listen([]string{"127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(listeners[0], Admin{Ready: func() (bool, string) {
		close(asked)
		<-answer
		return true, ""
	}})
	type result struct {
		code int
		err  error
	}
	got := make(chan result, 1)
	go func() {
		response, err := http.Get("http://" + s.Addr() + "/readyz")
		if err != nil {
			got <- result{err: err}
			return
		}
		got <- result{code: response.StatusCode, err: response.Body.Close()}
	}()
	<-asked
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed <- s.Close(ctx)
	}()
	close(answer)
	if r := <-got; r.err != nil || r.code != http.StatusOK {
		t.Errorf("request in flight: %+v", r)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestListenGivesBackWhatItBound(t *testing.T) {
	first, err := Listen([]string{"127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer first[0].Close()
	taken := first[0].Addr().String()
	if _, err := Listen([]string{"127.0.0.1:0", taken}); err == nil {
		t.Fatal("a taken address was bound")
	}
	var none []net.Listener
	if none, err = Listen(nil); err != nil || len(none) != 0 {
		t.Errorf("no address: %v %v", none, err)
	}
}
