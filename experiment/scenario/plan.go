package scenario

import (
	"container/heap"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Kind is what is done to an object.
type Kind string

const (
	// Create makes an object.
	Create Kind = "create"
	// Change changes one.
	Change Kind = "change"
	// Delete deletes one.
	Delete Kind = "delete"
)

// Operation is something that is done to an object at a time. Objects are numbered in the order in which they are made.
type Operation struct {
	At     time.Duration
	Do     Kind
	Object int
}

// Plan are all operations in the order of their times. Initial objects are made at the time 0, without a pause.
func (s Scenario) Plan(seed uint64) iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		p := &planner{load: s.Load, random: rand.New(rand.NewPCG(seed, 1)), at: map[int]int{}}
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

// planner decides what is done next.
type planner struct {
	load             Load
	random           *rand.Rand
	created, deleted int // since the beginning, without the initial ones
	count            int
	alive            []int
	at               map[int]int // where in alive an object is
	due              dues        // the next change of each object that was ever there
}

// next is the operation after the last one.
func (p *planner) next() Operation {
	creation, deletion := moment(p.created+1, p.load.Create), moment(p.deleted+1, p.load.Delete)
	for len(p.due) > 0 && p.at[p.due[0].object] < 0 { // it was deleted
		heap.Pop(&p.due)
	}
	change := forever
	if len(p.due) > 0 {
		change = p.due[0].at
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

const forever = time.Duration(math.MaxInt64)

// moment is when the nth of so many each second happens.
func moment(n int, each float64) time.Duration {
	if each <= 0 {
		return forever
	}
	return time.Duration(float64(n) / each * float64(time.Second))
}

func (p *planner) create(at time.Duration) Operation {
	object := p.count
	p.count++
	p.at[object] = len(p.alive)
	p.alive = append(p.alive, object)
	if every := p.load.ChangeEvery; every > 0 {
		// Not all that are made together are changed together.
		heap.Push(&p.due, due{at + time.Duration(p.random.Int64N(int64(every))) + 1, object})
	}
	return Operation{at, Create, object}
}

func (p *planner) change() Operation {
	next := p.due[0]
	p.due[0].at += p.load.ChangeEvery
	heap.Fix(&p.due, 0)
	return Operation{next.at, Change, next.object}
}

// remove deletes an object by chance.
func (p *planner) remove(at time.Duration) Operation {
	place := p.random.IntN(len(p.alive))
	object, last := p.alive[place], p.alive[len(p.alive)-1]
	p.alive[place], p.at[last] = last, place
	p.alive = p.alive[:len(p.alive)-1]
	p.at[object] = -1
	return Operation{at, Delete, object}
}

type due struct {
	at     time.Duration
	object int
}

// dues are a heap of what is due, the next one first.
type dues []due

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].object < d[j].object
}
func (d dues) Swap(i, j int)   { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(value any) { *d = append(*d, value.(due)) } //nolint:forcetypeassert // only planner pushes
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
