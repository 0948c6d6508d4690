package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// lockCall is an operation on the lock, and lockReply its outcome.
type lockCall struct {
	operation string // take, write, release or die
	token     int64
}

type lockReply struct {
	token   int64
	refused bool // held by another process, or fenced
	unknown bool // the outcome is unknown
}

// lockState is the state of the model: the newest token, and whether the lock is held.
type lockState struct {
	token int64
	held  bool
}

// lockModel is a sequential model of a lock with tokens.
var lockModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{lockState{}} },
	Step: func(state, input, output any) []any {
		now, in, out := state.(lockState), input.(lockCall), output.(lockReply)
		mine := now.held && now.token == in.token
		var next []any
		if out.unknown {
			next = append(next, now)
		}
		switch in.operation {
		case "take":
			switch {
			case out.unknown:
				if !now.held {
					next = append(next, lockState{now.token + 1, true})
				}
			case out.refused && now.held:
				next = append(next, now)
			case !out.refused && !now.held && out.token == now.token+1:
				next = append(next, lockState{out.token, true})
			}
		case "write":
			if !out.unknown && out.refused != mine {
				next = append(next, now)
			}
		case "release", "die":
			after := now
			if mine {
				after.held = false
			}
			next = append(next, after)
		}
		return next
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v: %+v", input, output)
	},
}

// recorder records the operations of one client.
type recorder struct {
	mu         *sync.Mutex
	operations *[]porcupine.Operation
	client     int
	start      time.Time
}

func (r *recorder) record(in lockCall, do func() lockReply) lockReply {
	began := time.Since(r.start).Nanoseconds()
	out := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.operations = append(*r.operations, porcupine.Operation{
		ClientId: r.client, Input: in, Call: began, Output: out, Return: time.Since(r.start).Nanoseconds(),
	})
	return out
}

// Concurrent processes take the lock, write under it, release it and die: their history is linearizable.
func TestLockIsLinearizable(t *testing.T) {
	t.Parallel()
	const clients, times = 4, 40
	onAllStores(t, func(t *testing.T, w *fixture) {
		seed := rand.Uint64()
		t.Log("seed: ", seed)
		var (
			mu         sync.Mutex
			operations []porcupine.Operation
			all        sync.WaitGroup
		)
		start := time.Now()
		for i := range clients {
			c, err := coordination.New(coordination.Options{Store: w.Store, System: system, Name: fmt.Sprint("instance-", i), SessionDuration: 30 * time.Second})
			w.Expect(err).NotTo(HaveOccurred())
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			r := &recorder{&mu, &operations, i, start}
			all.Go(func() { useLock(t, c, r, random, times) })
		}
		all.Wait()
		taken := 0
		for _, operation := range operations {
			if operation.Input.(lockCall).operation == "take" && operation.Output.(lockReply).token > 0 {
				taken++
			}
		}
		w.Expect(taken).To(BeNumerically(">", clients), "an empty history proves nothing")
		w.Expect(porcupine.CheckOperations(lockModel.ToModel(), operations)).To(BeTrue())
	})
}

func useLock(t *testing.T, c *coordination.Coordinator, r *recorder, random *rand.Rand, times int) {
	t.Helper()
	var grants []*coordination.Grant // also former grants, which must be refused
	for range times {
		if len(grants) == 0 || !grants[len(grants)-1].Held() || random.IntN(5) == 0 {
			r.record(lockCall{operation: "take"}, func() lockReply {
				grant, err := c.Lock(t.Context())
				var other *coordination.HeldError
				switch {
				case err == nil:
					grants = append(grants, grant)
					return lockReply{token: grant.Token}
				case errors.As(err, &other):
					return lockReply{refused: true}
				}
				return lockReply{unknown: !errors.Is(err, kv.ErrConflict), refused: true}
			})
			continue
		}
		grant, newest := grants[random.IntN(len(grants))], grants[len(grants)-1]
		switch random.IntN(6) {
		case 0, 1:
			r.record(lockCall{"release", newest.Token}, func() lockReply { return lockReply{unknown: newest.Release(t.Context()) != nil} })
		case 2:
			r.record(lockCall{"die", newest.Token}, func() lockReply { return lockReply{unknown: c.Close(t.Context()) != nil} })
		default:
			r.record(lockCall{"write", grant.Token}, func() lockReply {
				err := grant.Write(t.Context(), "written", strconv.FormatInt(grant.Token, 10))
				known := errors.Is(err, coordination.ErrFenced) || !grant.Held() && errors.Is(err, context.Canceled) // it was released
				return lockReply{refused: err != nil, unknown: err != nil && !known}
			})
		}
	}
}

// The checker finds violations.
func TestLockModelFindsViolations(t *testing.T) {
	t.Parallel()
	take := func(token int64) porcupine.Operation {
		return porcupine.Operation{Input: lockCall{operation: "take"}, Output: lockReply{token: token}}
	}
	for name, test := range map[string]struct {
		history []porcupine.Operation
		fine    bool
	}{
		"one after the other": {[]porcupine.Operation{take(1), {Input: lockCall{"release", 1}, Output: lockReply{}}, take(2)}, true},
		"two at a time":       {[]porcupine.Operation{take(1), take(2)}, false},
		"a token again":       {[]porcupine.Operation{take(1), {Input: lockCall{"release", 1}, Output: lockReply{}}, take(1)}, false},
		"written by one that lost it": {
			[]porcupine.Operation{take(1), {Input: lockCall{"die", 1}, Output: lockReply{}}, take(2), {Input: lockCall{"write", 1}, Output: lockReply{}}}, false,
		},
		"refused to the holder": {[]porcupine.Operation{take(1), {Input: lockCall{"write", 1}, Output: lockReply{refused: true}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range test.history {
				test.history[i].Call, test.history[i].Return = int64(2*i), int64(2*i+1)
			}
			if got := porcupine.CheckOperations(lockModel.ToModel(), test.history); got != test.fine {
				t.Errorf("the checker says %t", got)
			}
		})
	}
}
