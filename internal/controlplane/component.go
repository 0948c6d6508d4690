package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Component is one process of a control plane. It is safe for concurrent use.
type Component struct {
	spec process.Spec
	// health is a URL that returns 200 when the component is ready.
	health string
	client *http.Client
	// failed receives an error when the process ends without being stopped.
	failed chan<- error

	mu      sync.Mutex
	current *process.Process
	stopped chan struct{} // closed when the current process is being stopped
}

// Name returns the name of the program, such as kube-apiserver.
func (c *Component) Name() string { return c.spec.Name }

// Log returns the path of the component's log, over all its starts.
func (c *Component) Log() string { return c.spec.Log }

// Start starts the component and waits until it is ready.
func (c *Component) Start(ctx context.Context) error {
	running, err := c.launch()
	if err != nil {
		return err
	}
	return c.waitReady(ctx, running)
}

func (c *Component) launch() (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && c.current.Running() {
		return nil, fmt.Errorf("%s is already running", c.Name())
	}
	running, err := process.Start(c.spec)
	if err != nil {
		return nil, err
	}
	stopped := make(chan struct{})
	c.current, c.stopped = running, stopped
	go c.watch(running, stopped)
	return running, nil
}

// watch reports an unexpected end.
func (c *Component) watch(running *process.Process, stopped <-chan struct{}) {
	<-running.Done()
	select {
	case <-stopped:
		return
	default:
	}
	select {
	case c.failed <- c.endedError(running):
	default: // an earlier failure has not been received yet
	}
}

func (c *Component) endedError(running *process.Process) error {
	return fmt.Errorf("%s ended unexpectedly (%w); its log %s ends with:\n%s",
		c.Name(), running.Wait(context.Background()), c.spec.Log, running.Tail(8))
}

// waitReady polls until the component is healthy, it has ended, or ctx ends.
func (c *Component) waitReady(ctx context.Context, running *process.Process) error {
	const interval = 50 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		notReady := c.ready(ctx)
		if notReady == nil {
			return nil
		}
		select {
		case <-running.Done():
			return c.endedError(running)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w): %w; its log %s ends with:\n%s",
				c.Name(), ctx.Err(), notReady, c.spec.Log, running.Tail(8))
		case <-ticker.C:
		}
	}
}

func (c *Component) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.health, http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %s", c.health, response.Status)
	}
	return nil
}

// markStopped returns the current process, after recording that it is being stopped.
func (c *Component) markStopped() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
	return c.current
}

func (c *Component) process() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Running reports whether the component is running. A paused component is.
func (c *Component) Running() bool {
	current := c.process()
	return current != nil && current.Running()
}

// PID returns the ID of the component's process, or 0 before the first start.
func (c *Component) PID() int {
	if current := c.process(); current != nil {
		return current.PID()
	}
	return 0
}

// Stop stops the component gracefully, and kills it when ctx ends first.
func (c *Component) Stop(ctx context.Context) error {
	if current := c.markStopped(); current != nil {
		return current.Stop(ctx)
	}
	return nil
}

// Kill kills the component.
func (c *Component) Kill() error {
	if current := c.markStopped(); current != nil {
		return current.Kill()
	}
	return nil
}

// Restart stops the component gracefully and starts it with the same data and ports.
func (c *Component) Restart(ctx context.Context) error {
	const grace = 15 * time.Second
	stopping, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := c.Stop(stopping); err != nil {
		return err
	}
	return c.Start(ctx)
}

// Pause suspends the component: connections stay open, and requests get no response.
func (c *Component) Pause() error {
	if current := c.process(); current != nil {
		return current.Pause()
	}
	return nil
}

// Resume resumes a paused component.
func (c *Component) Resume() error {
	if current := c.process(); current != nil {
		return current.Resume()
	}
	return nil
}
