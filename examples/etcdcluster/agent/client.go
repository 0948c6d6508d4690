package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client is a client of an agent. Calls last until the context ends: an order may take as long as etcd takes to
// stop. After a lost response, repeat an order with the same ID.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client for the agent at a URL, such as http://127.0.0.1:7070.
func NewClient(agent string) (*Client, error) {
	parsed, err := url.Parse(agent)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, fmt.Errorf("invalid agent URL %q: use a URL such as http://127.0.0.1:7070", agent)
	}
	return &Client{url: strings.TrimSuffix(agent, "/"), http: &http.Client{}}, nil
}

// Members returns all members, sorted by their IDs.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	var members []Member
	err := c.call(ctx, http.MethodGet, "/members", nil, &members)
	return members, err
}

// Prepare assigns addresses to a member of a system. It keeps existing ones.
func (c *Client) Prepare(ctx context.Context, id, system string) (Member, error) {
	return c.member(ctx, http.MethodPut, id, "", prepareRequest{system})
}

// SetVersion sets the version of etcd for the next ordered start or restart.
func (c *Client) SetVersion(ctx context.Context, id, version string) (Member, error) {
	return c.member(ctx, http.MethodPut, id, "/version", versionRequest{version})
}

// SetArgs sets the arguments for the next ordered start or restart.
func (c *Client) SetArgs(ctx context.Context, id string, args map[string]string) (Member, error) {
	return c.member(ctx, http.MethodPut, id, "/args", argsRequest{args})
}

// Start starts a member with the arguments that are set. It does not affect a running one.
func (c *Client) Start(ctx context.Context, id string, order Order, launch Launch) (Member, error) {
	return c.member(ctx, http.MethodPost, id, "/start", startRequest{order, launch})
}

// Restart stops the process of a member, if any, and starts it with the arguments that are set.
func (c *Client) Restart(ctx context.Context, id string, order Order) (Member, error) {
	return c.member(ctx, http.MethodPost, id, "/restart", order)
}

// Stop stops the process of a member and keeps its data.
func (c *Client) Stop(ctx context.Context, id string, order Order) (Member, error) {
	return c.member(ctx, http.MethodPost, id, "/stop", order)
}

// Delete stops the process of a member and removes its data and addresses. It does nothing if the member does
// not exist.
func (c *Client) Delete(ctx context.Context, id string, order Order) error {
	return c.call(ctx, http.MethodDelete, "/members/"+url.PathEscape(id), order, nil)
}

type prepareRequest struct {
	System string `json:"system"`
}

type versionRequest struct {
	Version string `json:"version"`
}

type argsRequest struct {
	Args map[string]string `json:"args"`
}

type startRequest struct {
	Order
	Launch
}

func (c *Client) member(ctx context.Context, method, id, operation string, body any) (Member, error) {
	var member Member
	err := c.call(ctx, method, "/members/"+url.PathEscape(id)+operation, body, &member)
	return member, err
}

// maxBody limits the size of requests and responses.
const maxBody = 1 << 20

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("creating the request to the agent: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, &body)
	if err != nil {
		return fmt.Errorf("creating the request to the agent: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("calling the agent: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return fmt.Errorf("reading the response of the agent: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		refused := &RefusedError{}
		if json.Unmarshal(content, refused) != nil || refused.Reason == "" {
			return fmt.Errorf("the agent answers %s %s with %s: %.200s", method, path, response.Status, content)
		}
		return refused
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return fmt.Errorf("decoding the response of the agent: %w", err)
	}
	return nil
}
