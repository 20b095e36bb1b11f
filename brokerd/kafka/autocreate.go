package kafka

import (
	"context"
	"sync"
	"time"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

const (
	// autoCreateNamesMax bounds the topics that are being created at once on behalf of clients (I20).
	autoCreateNamesMax = 1_000
	// autoCreateTimeout ends one attempt; the client asks again anyway.
	autoCreateTimeout = 15 * time.Second
)

// autoCreator creates topics that clients asked for, in the background, each name at most once at a time
// (Kafka's AutoTopicCreationManager).
type autoCreator struct {
	server *Server
	// running counts the goroutines; the server waits for them when it stops.
	running sync.WaitGroup

	// mu guards the following.
	mu      sync.Mutex
	stopped bool
	// creating holds the names in flight.
	creating map[string]struct{}
}

// newAutoCreator returns an autoCreator that has nothing in flight.
func newAutoCreator(s *Server) *autoCreator {
	return &autoCreator{server: s, creating: map[string]struct{}{}}
}

// start begins to create those names that are not being created already, as far as there is room. It does not wait.
func (a *autoCreator) start(names []string, c *call) {
	taken := a.take(names)
	if len(taken) == 0 {
		return
	}
	req := &controllerv1.CreateTopicsRequest{Context: c.requestContext("AutoCreateTopics", autoCreateTimeout)}
	for _, name := range taken {
		req.Topics = append(req.Topics, &controllerv1.CreatableTopic{Name: name, NumPartitions: -1, ReplicationFactor: -1})
	}
	go func() {
		defer a.running.Done()
		defer a.give(taken)
		a.create(req)
	}()
}

// create asks the controller. Failures are for the log: the client sees that the topic is still unknown, and asks again.
func (a *autoCreator) create(req *controllerv1.CreateTopicsRequest) {
	ctx, cancel := context.WithTimeout(a.server.closing, autoCreateTimeout)
	defer cancel()
	resp, err := a.server.config.Controller.CreateTopics(ctx, req)
	if err != nil {
		a.server.hostile.warn("cannot create topics that clients asked for", "topics", len(req.Topics), "first", req.Topics[0].Name, "error", err)
		return
	}
	for _, t := range resp.GetTopics() {
		if e := t.GetError(); e != nil && e.GetCode() != controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS {
			a.server.hostile.warn("cannot create a topic that a client asked for", "topic", t.GetName(), "error", e.GetMessage())
		}
	}
}

// take marks the names that are going to be created now, and counts their goroutine in.
func (a *autoCreator) take(names []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return nil
	}
	var taken []string
	for _, name := range names {
		if _, busy := a.creating[name]; busy || len(a.creating) >= autoCreateNamesMax {
			continue
		}
		a.creating[name] = struct{}{}
		taken = append(taken, name)
	}
	if len(taken) > 0 {
		a.running.Add(1)
	}
	return taken
}

// give unmarks names.
func (a *autoCreator) give(names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		delete(a.creating, name)
	}
}

// stop refuses new work and waits for what is running, which ends with the server's closing context.
func (a *autoCreator) stop() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.running.Wait()
}
