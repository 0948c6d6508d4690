package scenario

import (
	"container/heap"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Kind is the type of an operation on an object.
type Kind string

const (
	// Create creates an object.
	Create Kind = "create"
	// Change changes one.
	Change Kind = "change"
	// Delete deletes one.
	Delete Kind = "delete"
)

// Operation is something that is done to an object when it is due. Objects are numbered in the order of their creation.
type Operation struct {
	At     time.Duration
	Do     Kind
	Object int
}

// Plan returns all operations in the order of their due times. Initial objects are created at time 0, all at once.
func (s Scenario) Plan(seed uint64) iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		p := &planner{load: s.Load, random: rand.New(rand.NewPCG(seed, 1)), index: map[int]int{}}
		for range s.Load.Initial {
			if !yield(p.create(0)) {
				return
			}
		}
		for {
			next := p.next()
			if next.At >= s.Duration || !yield(next) {
				return
			}
		}
	}
}

// planner generates the operations.
type planner struct {
	load             Load
	random           *rand.Rand
	created, deleted int // without the initial ones
	count            int
	alive            []int
	index            map[int]int // by object: its index in alive, -1 if it was deleted
	changes          changeQueue // the next change of each object that was ever created
}

// next returns the operation after the last one.
func (p *planner) next() Operation {
	creation, deletion := dueAt(p.created+1, p.load.Create), dueAt(p.deleted+1, p.load.Delete)
	for len(p.changes) > 0 && p.index[p.changes[0].object] < 0 { // it was deleted
		heap.Pop(&p.changes)
	}
	change := never
	if len(p.changes) > 0 {
		change = p.changes[0].at
	}
	switch {
	case change <= creation && change <= deletion:
		return p.change()
	case creation <= deletion || len(p.alive) == 0:
		p.created++
		return p.create(creation)
	}
	p.deleted++
	return p.remove(deletion)
}

const never = time.Duration(math.MaxInt64)

// dueAt returns when the nth operation is due at a rate per second.
func dueAt(n int, rate float64) time.Duration {
	if rate <= 0 {
		return never
	}
	return time.Duration(float64(n) / rate * float64(time.Second))
}

func (p *planner) create(at time.Duration) Operation {
	object := p.count
	p.count++
	p.index[object] = len(p.alive)
	p.alive = append(p.alive, object)
	if every := p.load.ChangeEvery; every > 0 {
		// Objects that are created together are changed at different times.
		heap.Push(&p.changes, nextChange{at + time.Duration(p.random.Int64N(int64(every))) + 1, object})
	}
	return Operation{at, Create, object}
}

func (p *planner) change() Operation {
	next := p.changes[0]
	p.changes[0].at += p.load.ChangeEvery
	heap.Fix(&p.changes, 0)
	return Operation{next.at, Change, next.object}
}

// remove deletes a random object.
func (p *planner) remove(at time.Duration) Operation {
	i := p.random.IntN(len(p.alive))
	object, last := p.alive[i], p.alive[len(p.alive)-1]
	p.alive[i], p.index[last] = last, i
	p.alive = p.alive[:len(p.alive)-1]
	p.index[object] = -1
	return Operation{at, Delete, object}
}

type nextChange struct {
	at     time.Duration
	object int
}

// changeQueue is a heap, ordered by time.
type changeQueue []nextChange

func (q changeQueue) Len() int { return len(q) }
func (q changeQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].object < q[j].object
}
func (q changeQueue) Swap(i, j int)   { q[i], q[j] = q[j], q[i] }
func (q *changeQueue) Push(value any) { *q = append(*q, value.(nextChange)) } //nolint:forcetypeassert // only planner pushes
func (q *changeQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
