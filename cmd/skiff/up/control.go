package up

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/skiffmq/skiff/cmd/config"
)

// controlTimeout bounds one verb: a stop with its grace and a start.
const controlTimeout = stopGrace + 10*time.Second

// control answers the node verbs on DATA/up.sock: GET /nodes, POST /nodes/NAME/VERB.
type control struct {
	http   *http.Server
	served chan error
	report func(format string, args ...any)
}

// refusal is an error on its way through the socket.
type refusal struct {
	Code  int    `json:"code"`
	Cause string `json:"cause"`
	Fix   string `json:"fix"`
}

func (c *cluster) listen() (*control, error) {
	path, err := c.where.socket()
	if err != nil {
		return nil, err
	}
	// The lock is ours, so a socket that is there has no owner any more.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, config.Failed("", "%v", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, config.Failed("choose a directory that can hold a socket", "%v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, config.Failed("", "%v", errors.Join(err, listener.Close()))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) { c.reply(w, c.list()) })
	mux.HandleFunc("POST /nodes/{name}/{verb}", c.handleVerb)
	s := &control{http: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, served: make(chan error, 1), report: c.report}
	go func() { s.served <- s.http.Serve(listener) }()
	return s, nil
}

// close ends the server; a verb in flight is cut off, the node carries it out all the same.
func (s *control) close() {
	if err := s.http.Close(); err != nil {
		s.report("%v", err)
	}
	if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
		s.report("%v", err)
	}
}

func (c *cluster) handleVerb(w http.ResponseWriter, r *http.Request) {
	n, ok := c.byName[r.PathValue("name")]
	if !ok {
		c.refuse(w, config.Usage("skiff node list", "no node is called %q", r.PathValue("name")))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), controlTimeout)
	defer cancel()
	if err := c.obey(ctx, n, r.PathValue("verb"), r.URL.Query().Has("force")); err != nil {
		c.refuse(w, err)
		return
	}
	c.reply(w, c.describe(n))
}

// obey carries out a verb on the wires of a node here, and leaves every other to the node.
func (c *cluster) obey(ctx context.Context, n *node, verb string, force bool) error {
	switch verb {
	case Isolate:
		return c.wires.isolate(n.spec.Name)
	case Heal:
		return c.wires.heal(n.spec.Name)
	}
	return n.do(ctx, verb, force)
}

func (c *cluster) reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		c.report("answer on up.sock: %v", err)
	}
}

func (c *cluster) refuse(w http.ResponseWriter, err error) {
	answer := refusal{Code: config.ExitCode(err), Cause: err.Error()}
	var exit *config.ExitError
	if errors.As(err, &exit) {
		answer.Fix = exit.Fix
	}
	w.WriteHeader(http.StatusConflict)
	c.reply(w, answer)
}
