package admission

import (
	"context"
	"sync"
)

// memoryFactor is the memory that a request takes, as a multiple of its size: what was read, the parsed review, and the
// metadata of its object.
const memoryFactor = 3

// DefaultMemory is the memory that all requests at a time may take by default. With it, and about 50 MiB at rest, the
// sharder stays within the limit of its container, 256 MiB.
const DefaultMemory = 96 << 20

// limiter bounds the memory of the requests that are served at the same time.
type limiter struct {
	mu      sync.Mutex
	used    int64
	waiting chan struct{} // closed when memory becomes free; nil while no request waits
}

// acquire reserves memory. It waits until ctx ends, and then returns false. A request that is larger than the total is
// served alone.
func (l *limiter) acquire(ctx context.Context, size, total int64) bool {
	for {
		l.mu.Lock()
		if l.used == 0 || l.used+size <= total {
			l.used += size
			l.mu.Unlock()
			return true
		}
		if l.waiting == nil {
			l.waiting = make(chan struct{})
		}
		free := l.waiting
		l.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return false
		}
	}
}

// release frees memory.
func (l *limiter) release(size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= size
	if l.waiting != nil {
		close(l.waiting)
		l.waiting = nil
	}
}
