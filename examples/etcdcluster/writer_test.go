package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// writer is a client that writes and reads through the whole of it.
type writer struct {
	w      *world
	number int // of this one: what another has written is not taken for its own
	client *clientv3.Client
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	ledger *ledger
	// failed are the writes that were not acknowledged, slow those that were, too late for somebody not to notice, and
	// unread the reads that were not answered.
	failed, slow, unread int
}

const (
	// slowly is when a write has taken long enough for somebody to notice.
	slowly = 100 * time.Millisecond
	// patient is how long the client waits for an answer.
	patient = 2 * time.Second
)

// write begins to write, one key after the other, until it is told to end.
func (w *world) write() *writer {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w.writers++
	writer := &writer{w: w, number: w.writers, client: w.connect(), stop: stop, ledger: newLedger()}
	writer.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			writer.one(ctx, i)
			writer.readBack(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	w.t.Cleanup(func() { stop(); writer.ended.Wait() })
	return writer
}

// one writes a key.
func (wr *writer) one(ctx context.Context, i int) {
	limited, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	key, value := fmt.Sprintf("written/%06d", i), fmt.Sprintf("%d by %d", i, wr.number)
	begin := time.Now()
	_, err := wr.client.Put(limited, key, value)
	took := time.Since(begin)
	if i%50 == 0 {
		_ = wr.client.Sync(limited) // members come and go
	}
	if ctx.Err() != nil {
		return
	}
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if err != nil {
		wr.failed++
		return
	}
	wr.ledger.acknowledge(key, value)
	if took > slowly {
		wr.slow++
	}
}

// readBack reads what was acknowledged last, whoever answers. The read is linearizable.
func (wr *writer) readBack(ctx context.Context) {
	wr.mu.Lock()
	key := wr.ledger.last
	wr.mu.Unlock()
	if key == "" {
		return
	}
	limited, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	answer, err := wr.client.Get(limited, key)
	if ctx.Err() != nil {
		return
	}
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if err != nil {
		wr.unread++
		return
	}
	var values []string
	for _, kv := range answer.Kvs {
		values = append(values, string(kv.Value))
	}
	wr.ledger.read(key, values...)
}

// count is how many writes were acknowledged.
func (wr *writer) count() int {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return len(wr.ledger.acknowledged)
}

// check ends the writer and sees that nothing is lost that was acknowledged, nor was at any time.
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
	wr.w.Expect(wr.ledger.acknowledged).NotTo(BeEmpty())
	wr.w.Expect(wr.ledger.reads).NotTo(BeZero())
	wr.w.Expect(wr.ledger.lost(found)).To(BeEmpty(), "they were acknowledged")
	wr.w.Expect(wr.ledger.wrong).To(BeEmpty())
	if _, bench := wr.w.t.(*testing.B); bench {
		return
	}
	wr.w.t.Logf("%d writes acknowledged, %d of them slow, %d failed; %d read back, %d reads failed",
		len(wr.ledger.acknowledged), wr.slow, wr.failed, wr.ledger.reads, wr.unread)
}
