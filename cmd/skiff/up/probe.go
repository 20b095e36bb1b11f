package up

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/skiffmq/skiff/cmd/admin"
)

// Limits of asking a node's admin server.
const (
	probeTimeout  = 2 * time.Second
	statusBytes   = 1 << 20
	probeInterval = 50 * time.Millisecond
)

// probeClient opens a connection for every question: a node that was killed and came back must not be asked over its old one.
var probeClient = &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// fetchStatus asks a node who it is and how it does.
func fetchStatus(ctx context.Context, s Spec) (*admin.Status, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin()+"/status", nil)
	if err != nil {
		return nil, err
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", s.Admin(), response.Status)
	}
	var status admin.Status
	if err := json.NewDecoder(io.LimitReader(response.Body, statusBytes)).Decode(&status); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Admin(), err)
	}
	if status.NodeID != s.ID {
		return nil, fmt.Errorf("%s is answered by node %d, not %d", s.Admin(), status.NodeID, s.ID)
	}
	return &status, nil
}

// probePID asks a node for its process id.
func probePID(s Spec) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	status, err := fetchStatus(ctx, s)
	if err != nil {
		return 0, err
	}
	return status.PID, nil
}
