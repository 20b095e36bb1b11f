package up

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/skiffmq/skiff/cmd/config"
)

// Client asks the `skiff up` that runs on a directory.
type Client struct {
	data string
	http http.Client
}

// NewClient returns a client for the cluster in data.
func NewClient(data string) (*Client, error) {
	path, err := socketPath(data)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{data: data, http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}, nil
}

// List returns every node.
func (c *Client) List(ctx context.Context) ([]Node, error) {
	var nodes []Node
	return nodes, c.ask(ctx, http.MethodGet, "/nodes", &nodes)
}

// Do carries out a verb on a node and returns the node as it is afterwards. Force lets Kill go without asking the node who it is.
func (c *Client) Do(ctx context.Context, name, verb string, force bool) (Node, error) {
	path := "/nodes/" + url.PathEscape(name) + "/" + verb
	if force {
		path += "?force"
	}
	var node Node
	return node, c.ask(ctx, http.MethodPost, path, &node)
}

func (c *Client) ask(ctx context.Context, method, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://up"+path, nil)
	if err != nil {
		return config.Failed("", "%v", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return &config.ExitError{
			Code: config.ExitFailed, Cause: fmt.Sprintf("no skiff up answers for %s: %v", c.data, err),
			Fix: "start it with `skiff up`, or name its directory with --data or SKIFF_DATA", Err: err,
		}
	}
	defer response.Body.Close()
	body := json.NewDecoder(io.LimitReader(response.Body, statusBytes))
	if response.StatusCode != http.StatusOK {
		var r refusal
		if err := body.Decode(&r); err != nil {
			return config.Failed("", "skiff up answers %s", response.Status)
		}
		return &config.ExitError{Code: r.Code, Cause: r.Cause, Fix: r.Fix}
	}
	if err := body.Decode(into); err != nil {
		return config.Failed("", "answer of skiff up: %v", err)
	}
	return nil
}
