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
	// slowly is when a request has taken long enough for somebody to notice.
	slowly = 100 * time.Millisecond
	// patient is how long the client waits for an answer.
	patient = 2 * time.Second
)

// client publishes to all streams, and reads back from the leader what was acknowledged, all the time.
type client struct {
	w     *world
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu sync.Mutex
	// acknowledged are the payloads by stream and sequence.
	acknowledged map[string]map[uint64]string
	// requests are all; failed were not answered, and slow were, too late for somebody not to notice.
	requests, failed, slow int
	wrong                  []string
}

// publish begins with one goroutine for each stream: a stream without a leader does not hold up the others.
func (w *world) publish() *client {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &client{w: w, stop: stop, acknowledged: map[string]map[uint64]string{}}
	for i := range streams {
		name := fmt.Sprintf("S%d", i)
		c.acknowledged[name] = map[uint64]string{}
		c.ended.Go(func() {
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
	w.t.Cleanup(func() { stop(); c.ended.Wait() })
	return c
}

// publishOne returns the sequence, or 0. The client tries it again if nobody leads the stream, as it does by default.
func (c *client) publishOne(ctx context.Context, stream, payload string) (sequence uint64) {
	c.request(ctx, func(ctx context.Context) error {
		ack, err := c.w.js.Publish(ctx, strings.ToLower(stream)+".x", []byte(payload))
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
		message, err := c.w.app.RequestWithContext(ctx, fmt.Sprintf(server.JSApiMsgGetT, stream), content)
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
			c.wrong = append(c.wrong, fmt.Sprintf("%d of %s is %q, want %q", sequence, stream, answer.Message.Data, want))
		}
		return nil
	})
}

// request counts what comes of a request.
func (c *client) request(ctx context.Context, do func(context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, patient)
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
	case took > slowly:
		c.slow++
	}
}

// check ends the client and sees that nothing is lost that was acknowledged.
func (c *client) check() {
	c.w.t.Helper()
	c.stop()
	c.ended.Wait()
	c.w.Expect(c.wrong).To(BeEmpty())
	for name, acknowledged := range c.acknowledged {
		c.w.Expect(acknowledged).NotTo(BeEmpty())
		stream, err := c.w.js.Stream(c.w.t.Context(), name)
		c.w.Expect(err).NotTo(HaveOccurred())
		for sequence, payload := range acknowledged {
			message, err := stream.GetMsg(c.w.t.Context(), sequence)
			c.w.Expect(err).NotTo(HaveOccurred(), "%d of %s was acknowledged", sequence, name)
			c.w.Expect(string(message.Data)).To(Equal(payload))
		}
	}
}

// terms are the sums of the terms of the streams' Raft groups, and that of the group that knows the streams. A term grows with
// every leader.
func (w *world) terms() (ofStreams, ofMeta uint64) {
	w.t.Helper()
	w.Eventually(func(g Gomega) { ofStreams = w.termsOf(g, "APP", streams) }).Should(Succeed())
	w.Eventually(func(g Gomega) { ofMeta = w.termsOf(g, "SYS", 1) }).Should(Succeed())
	return ofStreams, ofMeta
}

func (w *world) termsOf(g Gomega, account string, groups int) (sum uint64) {
	inbox, found := w.sys.NewInbox(), map[string]uint64{}
	answers, err := w.sys.SubscribeSync(inbox)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answers.Unsubscribe() }()
	question, err := json.Marshal(server.RaftzOptions{AccountFilter: account})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.sys.PublishRequest("$SYS.REQ.SERVER.PING.RAFTZ", inbox, question)).To(Succeed())
	for range w.regions {
		message, err := answers.NextMsg(patient)
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
