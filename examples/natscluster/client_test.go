package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/natscluster/agent"
)

const (
	// slowAfter is the duration after which a request counts as slow.
	slowAfter = 100 * time.Millisecond
	// requestTimeout is the timeout of a request.
	requestTimeout = 2 * time.Second
)

// client publishes to all streams, and reads the acknowledged messages back from the leader, all the time.
type client struct {
	f          *fixture
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	mu sync.Mutex
	// acknowledged are the acknowledged payloads by stream and sequence.
	acknowledged map[string]map[uint64]string
	// requests counts all requests, failed the ones without a response, slow the slow ones.
	requests, failed, slow int
	violations             []string
}

// startClient starts a client with one goroutine for each stream: a stream without a leader does not block the others.
func (w *fixture) startClient() *client {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &client{f: w, stop: stop, acknowledged: map[string]map[uint64]string{}}
	for i := range streams {
		name := fmt.Sprintf("S%d", i)
		c.acknowledged[name] = map[uint64]string{}
		c.goroutines.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				sequence := c.publishOne(ctx, name, fmt.Sprintf("%s %d %d", name, n, time.Now().UnixNano()))
				if sequence > 0 {
					c.readBack(ctx, name, sequence)
				}
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	w.t.Cleanup(func() { stop(); c.goroutines.Wait() })
	return c
}

// publishOne returns the sequence, or 0. The client library retries while the stream has no leader.
func (c *client) publishOne(ctx context.Context, stream, payload string) (sequence uint64) {
	c.request(ctx, func(ctx context.Context) error {
		ack, err := c.f.js.Publish(ctx, strings.ToLower(stream)+".x", []byte(payload))
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			sequence = ack.Sequence
			c.acknowledged[stream][sequence] = payload
		}
		return err
	})
	return sequence
}

func (c *client) readBack(ctx context.Context, stream string, sequence uint64) {
	c.request(ctx, func(ctx context.Context) error {
		content, err := json.Marshal(server.JSApiMsgGetRequest{Seq: sequence})
		if err != nil {
			return err
		}
		message, err := c.f.app.RequestWithContext(ctx, fmt.Sprintf(server.JSApiMsgGetT, stream), content)
		if err != nil {
			return err
		}
		var answer server.JSApiMsgGetResponse
		if err := json.Unmarshal(message.Data, &answer); err != nil {
			return err
		}
		if err := answer.ToError(); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if want := c.acknowledged[stream][sequence]; string(answer.Message.Data) != want {
			c.violations = append(c.violations, fmt.Sprintf("%d of %s is %q, want %q", sequence, stream, answer.Message.Data, want))
		}
		return nil
	})
}

// request counts a request by its outcome.
func (c *client) request(ctx context.Context, do func(context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	begun := time.Now()
	err := do(limited)
	took := time.Since(begun)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	switch {
	case err != nil:
		c.failed++
	case took > slowAfter:
		c.slow++
	}
}

// check stops the client, and checks that no acknowledged message was lost.
func (c *client) check() {
	c.f.t.Helper()
	c.stop()
	c.goroutines.Wait()
	c.f.Expect(c.violations).To(BeEmpty())
	for name, acknowledged := range c.acknowledged {
		c.f.Expect(acknowledged).NotTo(BeEmpty())
		stream, err := c.f.js.Stream(c.f.t.Context(), name)
		c.f.Expect(err).NotTo(HaveOccurred())
		for sequence, payload := range acknowledged {
			message, err := stream.GetMsg(c.f.t.Context(), sequence)
			c.f.Expect(err).NotTo(HaveOccurred(), "%d of %s was acknowledged", sequence, name)
			c.f.Expect(string(message.Data)).To(Equal(payload))
		}
	}
}

// raftTerms returns the sum of the terms of the streams' Raft groups, and the term of the meta group. A term grows with every leader.
func (w *fixture) raftTerms() (ofStreams, ofMeta uint64) {
	w.t.Helper()
	w.Eventually(func(g Gomega) { ofStreams = w.raftTermsOf(g, "APP", streams) }).Should(Succeed())
	w.Eventually(func(g Gomega) { ofMeta = w.raftTermsOf(g, "SYS", 1) }).Should(Succeed())
	return ofStreams, ofMeta
}

func (w *fixture) raftTermsOf(g Gomega, account string, groups int) (sum uint64) {
	inbox, found := w.sys.NewInbox(), map[string]uint64{}
	answers, err := w.sys.SubscribeSync(inbox)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answers.Unsubscribe() }()
	question, err := json.Marshal(server.RaftzOptions{AccountFilter: account})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.sys.PublishRequest("$SYS.REQ.SERVER.PING.RAFTZ", inbox, question)).To(Succeed())
	for range w.regions {
		message, err := answers.NextMsg(requestTimeout)
		g.Expect(err).NotTo(HaveOccurred())
		var answer server.ServerAPIRaftzResponse
		g.Expect(json.Unmarshal(message.Data, &answer)).To(Succeed())
		g.Expect(answer.Data).NotTo(BeNil())
		for _, all := range *answer.Data {
			for name, group := range all {
				found[name] = max(found[name], group.Term)
			}
		}
	}
	g.Expect(found).To(HaveLen(groups))
	for _, term := range found {
		sum += term
	}
	return sum
}

func sorted(events []agent.Event) []agent.Event {
	slices.SortFunc(events, func(a, b agent.Event) int { return a.Time.Compare(b.Time) })
	return events
}
