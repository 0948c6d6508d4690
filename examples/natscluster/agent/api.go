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
	// ClientURL is where clients reach it, and Route where the other servers do, as host and port.
	ClientURL string `json:"clientURL"`
	Route     string `json:"route"`
	// Config and Protocol are what its process was started with.
	Config   string `json:"config"`
	Protocol string `json:"protocol"`
	// Task is the ID of the order that was carried out last.
	Task string `json:"task,omitempty"`
	// Ready is set when the server says that all it has is up to date.
	Ready bool `json:"ready"`
	// Problem says why it does not run.
	Problem string `json:"problem,omitempty"`
}

// What an order may say to do.
const (
	Start   = "start"
	Restart = "restart"
	Delete  = "delete" // also its data
)

// Order is something to do with a server.
type Order struct {
	Do       string `json:"do"`
	Config   string `json:"config,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// Task tells the order from others, and Token is that of the lock under which it was given.
	Task  string `json:"task"`
	Token int64  `json:"token"`
}

// Event is something that happened to a server, for tests.
type Event struct {
	Time   time.Time `json:"time"`
	Member string    `json:"member"`
	// What is an order's Do when its process is ended, Stopped when that has happened, or Ready.
	What  string `json:"what"`
	Task  string `json:"task,omitempty"`
	Token int64  `json:"token,omitempty"`
}

// Ready is the event of a server that is up to date again.
const Ready = "ready"

// FencedError is returned for an order with an older token than the agent has seen.
type FencedError struct {
	Seen int64 `json:"seen"`
}

func (e *FencedError) Error() string { return fmt.Sprintf("the agent has seen the token %d", e.Seen) }

// FailedError is returned for an order that cannot be carried out.
type FailedError struct {
	Reason string `json:"reason"`
}

func (e *FailedError) Error() string { return e.Reason }

// Client talks to the agent at a URL.
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
		return fmt.Errorf("asking the agent: %w", err)
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
