//go:build faults

package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// history is what became of the lock, as etcd remembers it.
type history struct {
	*world
	token  int64 // the newest
	lock   *coordination.Lock
	denied map[string]map[string]bool // by name, and by who says so
	// at is where each intent was last, done are those that have ended.
	at     map[int64]int
	done   map[int64]bool
	grants int
}

// checkHistory goes through all that was ever written. Tokens only grow, a holder is followed by another one only after
// it has lost the lock, and nothing is written under another token than that of the lock.
func (w *world) checkHistory() {
	w.t.Helper()
	root := coordination.DefaultRoot + "/" + clusterName + "/"
	client := w.connect()
	now, err := client.Get(context.Background(), "now")
	w.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	defer stop()
	// The last one is this one's own, so that there is an end.
	_, err = client.Put(context.Background(), root+"end", "")
	w.Expect(err).NotTo(HaveOccurred())
	h := &history{world: w, denied: map[string]map[string]bool{}, at: map[int64]int{}, done: map[int64]bool{}}
	for response := range client.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		w.Expect(response.Err()).NotTo(HaveOccurred())
		for _, event := range response.Events {
			key := strings.TrimPrefix(string(event.Kv.Key), root)
			if key == "end" && event.Kv.ModRevision > now.Header.Revision {
				w.t.Logf("%d grants of the lock and %d acts are in the history", h.grants, len(h.done))
				w.Expect(h.grants).To(BeNumerically(">", 0))
				return
			}
			h.take(key, event)
		}
	}
	w.Expect(ctx.Err()).To(HaveOccurred(), "the history has no end")
}

func (h *history) take(key string, event *clientv3.Event) {
	h.t.Helper()
	put, value := event.Type == clientv3.EventTypePut, string(event.Kv.Value)
	switch kind, rest, _ := strings.Cut(key, "/"); kind {
	case "denied":
		by, name, _ := strings.Cut(rest, "/")
		if h.denied[name] == nil {
			h.denied[name] = map[string]bool{}
		}
		if h.denied[name][by] = true; !put {
			delete(h.denied[name], by)
		}
	case "token":
		token, err := strconv.ParseInt(value, 10, 64)
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(put).To(BeTrue(), "the token is never deleted")
		h.Expect(token).To(Equal(h.token), "it is written with the lock")
	case "lock":
		h.takeLock(put, value)
	case "intent":
		if put {
			h.takeIntent(value)
		}
	case "done":
		if put {
			h.takeDone(value)
		}
	}
}

func (h *history) takeLock(put bool, value string) {
	h.t.Helper()
	before := h.lock
	h.lock = nil
	if !put {
		return
	}
	h.lock = &coordination.Lock{}
	h.Expect(json.Unmarshal([]byte(value), h.lock)).To(Succeed())
	h.Expect(h.lock.Token).To(BeNumerically(">", h.token), "tokens only grow")
	if before != nil {
		h.Expect(h.denied[before.Holder]).NotTo(BeEmpty(), "%s takes the lock of %s", h.lock.Holder, before.Holder)
	}
	h.token = h.lock.Token
	h.grants++
}

func (h *history) takeIntent(value string) {
	h.t.Helper()
	var intent coordination.Intent
	h.Expect(json.Unmarshal([]byte(value), &intent)).To(Succeed())
	h.Expect(h.lock).NotTo(BeNil(), "an intent is written without the lock: %s", value)
	h.Expect(intent.Token).To(Equal(h.lock.Token), value)
	h.Expect(intent.By).To(Equal(h.lock.Holder), value)
	h.Expect(intent.At).To(BeNumerically(">=", h.at[intent.ID]), "a step is done again: %s", value)
	h.Expect(h.done).NotTo(HaveKey(intent.ID), "it was done: %s", value)
	h.at[intent.ID] = intent.At
}

func (h *history) takeDone(value string) {
	h.t.Helper()
	var done coordination.Done
	h.Expect(json.Unmarshal([]byte(value), &done)).To(Succeed())
	h.Expect(h.lock).NotTo(BeNil(), "it is done without the lock: %s", value)
	h.Expect(done.Token).To(Equal(h.lock.Token), value)
	h.Expect(h.done).NotTo(HaveKey(done.ID), "it is done twice: %s", value)
	h.done[done.ID] = true
}
