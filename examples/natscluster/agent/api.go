package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Member is a NATS server of the region.
type Member struct {
	Name string `json:"name"`
	// ClientURL is the URL for clients, and Route the host and port for other servers.
	ClientURL string `json:"clientURL"`
	Route     string `json:"route"`
	// Config and Protocol are those of the running process.
	Config   string `json:"config"`
	Protocol string `json:"protocol"`
	// Task is the ID of the last order.
	Task string `json:"task,omitempty"`
	// Ready is set when the server reports that all its streams are up to date.
	Ready bool `json:"ready"`
	// Problem is the reason why it does not run.
	Problem string `json:"problem,omitempty"`
}

// The operations of orders.
const (
	Start   = "start"
	Restart = "restart"
	Delete  = "delete" // also its data
)

// Order is an order for a server.
type Order struct {
	Do       string `json:"do"`
	Config   string `json:"config,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// Task identifies the order, and Token is the fencing token of the lock.
	Task  string `json:"task"`
	Token int64  `json:"token"`
}

// Event is an event of a server, for tests.
type Event struct {
	Time   time.Time `json:"time"`
	Member string    `json:"member"`
	// Operation is the operation of an order when it begins, or Ready.
	Operation string `json:"what"`
	Task      string `json:"task,omitempty"`
	Token     int64  `json:"token,omitempty"`
}

// Ready is the event of a server that is up to date again.
const Ready = "ready"

// FencedError is returned for an order with an older token than the agent has seen.
type FencedError struct {
	Seen int64 `json:"seen"`
}

func (e *FencedError) Error() string { return fmt.Sprintf("the agent has seen token %d", e.Seen) }

// FailedError is returned for an order that cannot be carried out.
type FailedError struct {
	Reason string `json:"reason"`
}

func (e *FailedError) Error() string { return e.Reason }

// Client is a client of the agent at a URL.
type Client struct{ URL string }

// Members returns the servers of the region.
func (c *Client) Members(ctx context.Context) (members []Member, err error) {
	err = c.call(ctx, http.MethodGet, "/members", nil, &members)
	return members, err
}

// Events returns all that has happened.
func (c *Client) Events(ctx context.Context) (events []Event, err error) {
	err = c.call(ctx, http.MethodGet, "/events", nil, &events)
	return events, err
}

// Do gives an order. It returns a FencedError or a FailedError if the agent refuses it or could not carry it out.
func (c *Client) Do(ctx context.Context, member string, order Order) error {
	return c.call(ctx, http.MethodPost, "/members/"+member, order, nil)
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("calling the agent: %w", err)
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	switch response.StatusCode {
	case http.StatusOK:
		if out == nil {
			return nil
		}
		return decoder.Decode(out)
	case http.StatusConflict:
		fenced := &FencedError{}
		return errors.Join(decoder.Decode(fenced), fenced)
	case http.StatusUnprocessableEntity:
		failed := &FailedError{}
		return errors.Join(decoder.Decode(failed), failed)
	}
	return fmt.Errorf("the agent answers %s", response.Status)
}
