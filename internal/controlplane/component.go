package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Component is one part of a control plane. Its methods may be called from several goroutines.
type Component struct {
	spec process.Spec
	// health is a URL that answers 200 when the component is ready, asked with client.
	health string
	client *http.Client
	// failed is told when the process ends although nobody asked it to.
	failed chan<- error

	mu      sync.Mutex
	current *process.Process
	stopped chan struct{} // closed when somebody asked the current process to end
}

// Name is the name of the program, such as kube-apiserver.
func (c *Component) Name() string { return c.spec.Name }

// Log is the file with what the component wrote, over all its starts.
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
		return nil, fmt.Errorf("%s is running already", c.Name())
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

// watch reports an end that nobody asked for.
func (c *Component) watch(running *process.Process, stopped <-chan struct{}) {
	<-running.Done()
	select {
	case <-stopped:
		return
	default:
	}
	select {
	case c.failed <- c.endedError(running):
	default: // one failure is enough to know
	}
}

func (c *Component) endedError(running *process.Process) error {
	return fmt.Errorf("%s ended by itself (%w); its log %s ends with:\n%s",
		c.Name(), running.Wait(context.Background()), c.spec.Log, running.Tail(8))
}

// waitReady asks until the component is healthy, ended, or ctx ends.
func (c *Component) waitReady(ctx context.Context, running *process.Process) error {
	const interval = 50 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		answer := c.ready(ctx)
		if answer == nil {
			return nil
		}
		select {
		case <-running.Done():
			return c.endedError(running)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w): %w; its log %s ends with:\n%s",
				c.Name(), ctx.Err(), answer, c.spec.Log, running.Tail(8))
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
		return fmt.Errorf("%s answers %s", c.health, response.Status)
	}
	return nil
}

// asked returns the current process after noting that its end is wanted.
func (c *Component) asked() *process.Process {
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

// Running tells whether the component's process is there. A paused one is.
func (c *Component) Running() bool {
	current := c.process()
	return current != nil && current.Running()
}

// PID is the number of the component's process, or 0 before the first start.
func (c *Component) PID() int {
	if current := c.process(); current != nil {
		return current.PID()
	}
	return 0
}

// Stop ends the component in good order, or by force when ctx ends first.
func (c *Component) Stop(ctx context.Context) error {
	if current := c.asked(); current != nil {
		return current.Stop(ctx)
	}
	return nil
}

// Kill ends the component at once.
func (c *Component) Kill() error {
	if current := c.asked(); current != nil {
		return current.Kill()
	}
	return nil
}

// Restart stops the component in good order and starts it again on the same data and ports.
func (c *Component) Restart(ctx context.Context) error {
	const grace = 15 * time.Second
	stopping, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := c.Stop(stopping); err != nil {
		return err
	}
	return c.Start(ctx)
}

// Pause stops the component where it is: connections stay open and nothing answers.
func (c *Component) Pause() error {
	if current := c.process(); current != nil {
		return current.Pause()
	}
	return nil
}

// Resume lets a paused component go on.
func (c *Component) Resume() error {
	if current := c.process(); current != nil {
		return current.Resume()
	}
	return nil
}
