package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/storetest/history"
)

// Fault is a fault of the backend, or of the connections to it.
type Fault struct {
	Name string
	// Begin and End begin and end the fault. Operations in between may fail, but must not have wrong results.
	Begin, End func(t *testing.T)
}

const (
	processes, clientsEach = 3, 2
	// operationsWithoutFault and operationsWithFault are the numbers of operations of each client. During a fault, many outcomes are
	// unknown, and checking many of those takes long.
	operationsWithoutFault, operationsWithFault = 25, 4
	// operationTimeout is short enough that sessions are lost during a fault.
	operationTimeout = sessionDuration / 2
	// checkTimeout limits the check, which usually takes much less time.
	checkTimeout = 2 * time.Minute
)

// Linearizable runs all operations of a store concurrently, in several clients of several processes, with one fault after the other,
// and checks that the history is linearizable.
func Linearizable(t *testing.T, start func(t *testing.T) Process, faults ...Fault) {
	t.Helper()
	recorder := history.NewRecorder()
	root, seed := newRoot(), rand.Uint64()
	var clients []*client
	for range processes {
		process := startProcess(t, start)
		for range clientsEach {
			number := len(clients)
			clients = append(clients, &client{
				store: recorder.Store(number, process.Store), number: number, root: root,
				random: rand.New(rand.NewPCG(seed, uint64(number))),
			})
		}
	}
	t.Logf("seed: %d", seed)
	runClients(t, clients, operationsWithoutFault)
	for _, fault := range faults {
		t.Logf("fault: %s", fault.Name)
		fault.Begin(t)
		runClients(t, clients, operationsWithFault)
		fault.End(t)
		for _, client := range clients {
			gomega.NewWithT(t).Eventually(func() error { return client.read(t.Context(), root) }, eventTimeout).Should(gomega.Succeed(), "after the fault")
		}
		runClients(t, clients, operationsWithoutFault)
	}
	all := recorder.History()
	unknown := 0
	for _, operation := range all {
		if operation.Output == any(history.Unknown{}) {
			unknown++
		}
	}
	began := time.Now()
	if err := history.Check(all, checkTimeout); err != nil {
		t.Error(err)
	}
	t.Logf("checked %d operations, %d with an unknown outcome, in %s", len(all), unknown, time.Since(began))
}

// runClients runs a number of random operations in each client.
func runClients(t *testing.T, clients []*client, times int) {
	var working sync.WaitGroup
	for _, client := range clients {
		working.Go(func() {
			for range times {
				client.randomOperation(t.Context())
			}
		})
	}
	working.Wait()
}

// client runs random operations, one after the other. It ignores errors.
type client struct {
	store   kv.Store
	number  int
	root    string
	random  *rand.Rand
	written int
	// last is the last snapshot of all keys.
	last    *kv.Snapshot
	session kv.Session
}

func (c *client) randomOperation(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	key, other := c.anyKey(), c.root+"/d"
	actions := []func(){
		func() { _ = c.read(ctx, c.root) },
		func() { _ = c.read(ctx, c.root+"/b", c.root+"/d") },
		func() { c.commit(ctx, nil, c.put(key)) },
		func() { c.commit(ctx, c.unchanged(key), c.put(key)) },
		func() { c.commit(ctx, c.unchanged(key), kv.Delete(key), c.put(other)) },
		func() { c.commit(ctx, c.notWritten(c.root+"/b"), c.put(c.root+"/b/1"), c.put(c.root+"/b/2")) },
		func() { c.commit(ctx, c.notWritten(c.root), kv.DeleteBelow(c.root+"/b"), c.put(other)) },
		func() { c.useSession(ctx, key) },
		func() { c.endSession(ctx) },
	}
	// Half of the operations are reads, because only reads reveal wrong results.
	if c.last == nil || c.random.IntN(2) == 0 {
		actions = actions[:2]
	}
	actions[c.random.IntN(len(actions))]()
}

func (c *client) anyKey() string {
	keys := []string{"/a", "/b", "/b/1", "/b/2", "/c"}
	return c.root + keys[c.random.IntN(len(keys))]
}

func (c *client) read(ctx context.Context, paths ...string) error {
	snapshot, err := c.store.Read(ctx, paths...)
	if err == nil && paths[0] == c.root {
		c.last = snapshot
	}
	return err
}

func (c *client) commit(ctx context.Context, conditions []kv.Condition, operations ...kv.Operation) {
	_, _ = c.store.Commit(ctx, kv.Transaction{If: conditions, Then: operations})
}

// put returns an operation with a unique value.
func (c *client) put(key string) kv.Operation {
	c.written++
	return kv.Put(key, fmt.Sprintf("%d of client %d", c.written, c.number))
}

func (c *client) unchanged(key string) []kv.Condition {
	return []kv.Condition{kv.IsAt(key, c.last.Entries[key].Version)}
}

func (c *client) notWritten(path string) []kv.Condition {
	return []kv.Condition{kv.NotWritten(path, c.last.Revision)}
}

// useSession writes an entry of the session. It opens a session if there is none, and sometimes uses a lost one.
func (c *client) useSession(ctx context.Context, key string) {
	if c.session == nil || c.isLost() && c.random.IntN(2) == 0 {
		c.session, _ = c.store.Open(ctx, fmt.Sprintf("client-%d", c.number), sessionDuration)
	}
	if c.session != nil {
		put := c.put(key)
		put.Session = c.session.ID()
		c.commit(ctx, nil, put)
	}
}

func (c *client) isLost() bool {
	select {
	case <-c.session.Lost():
		return true
	default:
		return false
	}
}

func (c *client) endSession(ctx context.Context) {
	if c.session != nil {
		_ = c.session.Close(ctx)
		c.session = nil
	}
}
