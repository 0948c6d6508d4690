package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// writer is a client that writes and reads through the whole of it.
type writer struct {
	w      *world
	client *clientv3.Client
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu sync.Mutex
	// acknowledged are the values that the system has said it has.
	acknowledged map[string]string
	failed, slow int
}

// slowly is when a write has taken long enough for somebody to notice.
const slowly = 100 * time.Millisecond

// write begins to write, one key after the other, until it is told to end.
func (w *world) write() *writer {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	writer := &writer{w: w, client: w.connect(), stop: stop, acknowledged: map[string]string{}}
	writer.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			writer.one(ctx, i)
		}
	})
	w.t.Cleanup(func() { stop(); writer.ended.Wait() })
	return writer
}

func (wr *writer) one(ctx context.Context, i int) {
	const patient = 2 * time.Second
	limited, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	key, value := fmt.Sprintf("written/%06d", i), strconv.Itoa(i)
	begin := time.Now()
	_, err := wr.client.Put(limited, key, value)
	if ctx.Err() != nil {
		return
	}
	wr.mu.Lock()
	switch {
	case err != nil:
		wr.failed++
	default:
		wr.acknowledged[key] = value
	}
	if time.Since(begin) > slowly {
		wr.slow++
	}
	wr.mu.Unlock()
	if i%50 == 0 {
		_ = wr.client.Sync(limited) // members come and go
	}
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

// count is how many writes were acknowledged.
func (wr *writer) count() int {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return len(wr.acknowledged)
}

// check ends the writer and sees that nothing is lost that was acknowledged.
func (wr *writer) check() {
	wr.w.t.Helper()
	wr.stop()
	wr.ended.Wait()
	answer, err := wr.w.connect().Get(context.Background(), "written/", clientv3.WithPrefix())
	wr.w.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for _, kv := range answer.Kvs {
		found[string(kv.Key)] = string(kv.Value)
	}
	wr.w.Expect(wr.acknowledged).NotTo(BeEmpty())
	var lost []string // a matcher for each would take minutes
	for key, value := range wr.acknowledged {
		if found[key] != value {
			lost = append(lost, key)
		}
	}
	wr.w.Expect(lost).To(BeEmpty(), "they were acknowledged")
	if _, bench := wr.w.t.(*testing.B); bench {
		return
	}
	wr.w.t.Logf("%d writes acknowledged, %d failed, %d slow", len(wr.acknowledged), wr.failed, wr.slow)
}
