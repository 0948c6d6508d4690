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

// writer is a client that writes and reads all the time.
type writer struct {
	f      *fixture
	number int // of this writer, so that it recognizes its own writes
	client *clientv3.Client
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	ledger *ledger
	// failed are the writes without an acknowledgement, slow the ones that took noticeably long, unread the failed
	// reads.
	failed, slow, unread int
}

const (
	// slowAfter is the duration after which a write counts as slow.
	slowAfter = 100 * time.Millisecond
	// requestTimeout is the timeout of a request.
	requestTimeout = 2 * time.Second
)

// startWriter starts a writer, which writes one key after the other.
func (w *fixture) startWriter() *writer {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w.writerCount++
	writer := &writer{f: w, number: w.writerCount, client: w.newClient(), stop: stop, ledger: newLedger()}
	writer.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			writer.writeOne(ctx, i)
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

// writeOne writes a key.
func (wr *writer) writeOne(ctx context.Context, i int) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	key, value := fmt.Sprintf("written/%06d", i), fmt.Sprintf("%d by %d", i, wr.number)
	begin := time.Now()
	_, err := wr.client.Put(limited, key, value)
	took := time.Since(begin)
	if i%50 == 0 {
		_ = wr.client.Sync(limited) // members change
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
	wr.ledger.recordWrite(key, value)
	if took > slowAfter {
		wr.slow++
	}
}

// readBack reads the last acknowledged key, with a linearizable read.
func (wr *writer) readBack(ctx context.Context) {
	wr.mu.Lock()
	key := wr.ledger.last
	wr.mu.Unlock()
	if key == "" {
		return
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
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
	wr.ledger.recordRead(key, values...)
}

// count returns the number of acknowledged writes.
func (wr *writer) count() int {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return len(wr.ledger.acknowledged)
}

// check stops the writer, and checks that no acknowledged write was lost at any time.
func (wr *writer) check() {
	wr.f.t.Helper()
	wr.stop()
	wr.ended.Wait()
	answer, err := wr.f.newClient().Get(context.Background(), "written/", clientv3.WithPrefix())
	wr.f.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for _, kv := range answer.Kvs {
		found[string(kv.Key)] = string(kv.Value)
	}
	wr.f.Expect(wr.ledger.acknowledged).NotTo(BeEmpty())
	wr.f.Expect(wr.ledger.reads).NotTo(BeZero())
	wr.f.Expect(wr.ledger.lostKeys(found)).To(BeEmpty(), "they were acknowledged")
	wr.f.Expect(wr.ledger.violations).To(BeEmpty())
	if _, bench := wr.f.t.(*testing.B); bench {
		return
	}
	wr.f.t.Logf("%d writes acknowledged, %d of them slow, %d failed; %d read back, %d reads failed",
		len(wr.ledger.acknowledged), wr.slow, wr.failed, wr.ledger.reads, wr.unread)
}
