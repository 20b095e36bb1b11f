package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the server. A probe is small and quick; what is not is no probe.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	writeTimeout   = 30 * time.Second // a scrape of many metrics over a slow link
	idleTimeout    = 2 * time.Minute
	headerBytesMax = 16 << 10
)

// Admin is what the server asks the process. Every function may be nil and may be called from any goroutine.
type Admin struct {
	// Live tells whether the process works, and if not, why. nil means yes.
	Live func() (ok bool, reason string)
	// Ready tells whether the process serves, and if not, why. nil means yes.
	Ready func() (ok bool, reason string)
	// Checks are the parts of Ready, for ?verbose. nil means none.
	Checks func() []Check
	// Status is the value to write as JSON, usually a [Status].
	Status func() any
	// Registry of the process's metrics; nil means an empty one.
	Registry *prometheus.Registry
}

// Check is one named part of being ready.
type Check struct {
	// Name of the check.
	Name string
	// OK tells that it passed.
	OK bool
	// Reason why it did not.
	Reason string
}

// Server serves one listener until it is closed.
type Server struct {
	http     *http.Server
	listener net.Listener
	served   chan error // one value, when the goroutine of Serve ends
}

// Serve answers on the listener, in a goroutine of its own, until Close. It takes the listener over.
func Serve(listener net.Listener, admin Admin) *Server {
	s := &Server{
		http: &http.Server{
			Handler:           admin.Handler(),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       requestTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    headerBytesMax,
		},
		listener: listener,
		served:   make(chan error, 1),
	}
	go func() { s.served <- s.http.Serve(listener) }()
	return s
}

// Addr is the bound host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close lets requests in flight end, for as long as ctx allows, and returns when the server's goroutine has ended. It is called once.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Listen binds every address, or none.
func Listen(addresses []string) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			for _, open := range listeners {
				err = errors.Join(err, open.Close())
			}
			return nil, fmt.Errorf("admin server: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// Handler returns the routes.
func (a Admin) Handler() http.Handler {
	registry := a.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", a.livez)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /healthz", a.readyz)
	mux.HandleFunc("GET /status", a.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}

func (a Admin) livez(w http.ResponseWriter, _ *http.Request) {
	answer(w, nil, ask(a.Live))
}

func (a Admin) readyz(w http.ResponseWriter, r *http.Request) {
	var checks []Check
	if r.URL.Query().Has("verbose") && a.Checks != nil {
		checks = a.Checks()
	}
	answer(w, checks, ask(a.Ready))
}

// ask calls a question of Admin.
func ask(question func() (bool, string)) Check {
	if question == nil {
		return Check{OK: true}
	}
	ok, reason := question()
	return Check{OK: ok, Reason: reason}
}

// answer writes the checks, one a line as the Kubernetes API server does, and then the verdict.
func answer(w http.ResponseWriter, checks []Check, verdict Check) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if !verdict.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, c := range checks {
		if c.OK {
			fmt.Fprintf(w, "[+]%s ok\n", c.Name)
		} else {
			fmt.Fprintf(w, "[-]%s failed: %s\n", c.Name, c.Reason)
		}
	}
	if verdict.OK {
		fmt.Fprintln(w, "ok")
		return
	}
	fmt.Fprintln(w, verdict.Reason)
}

func (a Admin) status(w http.ResponseWriter, _ *http.Request) {
	var status any = struct{}{}
	if a.Status != nil {
		status = a.Status()
	}
	body, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// The client may have gone; there is nobody left to tell.
	_, _ = w.Write(append(body, '\n'))
}
