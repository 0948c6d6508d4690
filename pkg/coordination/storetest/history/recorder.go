package history

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Recorder records operations. Its methods are safe for concurrent use.
type Recorder struct {
	start time.Time

	mu         sync.Mutex
	operations []*porcupine.Operation
}

// NewRecorder returns a recorder with an empty history.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// never is the end of an operation that may still take effect after the end of the history.
const never = math.MaxInt64

// Unknown is the output of an operation with an unknown outcome.
type Unknown struct{}

// Operation is an operation that has begun.
type Operation struct {
	recorder  *Recorder
	operation *porcupine.Operation
}

// Begin records the beginning of an operation of a client. A client with concurrent operations needs several numbers. The initial
// outcome is Unknown.
func (r *Recorder) Begin(client int, input any) *Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := &porcupine.Operation{ClientId: client, Input: input, Call: r.now(), Output: Unknown{}, Return: never}
	r.operations = append(r.operations, begun)
	return &Operation{recorder: r, operation: begun}
}

// End records the outcome of the operation.
func (o *Operation) End(output any) {
	o.recorder.mu.Lock()
	defer o.recorder.mu.Unlock()
	o.operation.Output, o.operation.Return = output, o.recorder.now()
}

// SetOutput records the output of the operation. When it took effect is unknown.
func (o *Operation) SetOutput(output any) {
	o.recorder.mu.Lock()
	defer o.recorder.mu.Unlock()
	o.operation.Output = output
}

// Drop removes the operation, which had no effect and returned nothing.
func (o *Operation) Drop() {
	o.recorder.mu.Lock()
	defer o.recorder.mu.Unlock()
	o.recorder.operations = slices.DeleteFunc(o.recorder.operations, func(each *porcupine.Operation) bool { return each == o.operation })
}

// History returns the recorded operations.
func (r *Recorder) History() []porcupine.Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]porcupine.Operation, 0, len(r.operations))
	for _, operation := range r.operations {
		all = append(all, *operation)
	}
	return all
}

func (r *Recorder) now() int64 { return time.Since(r.start).Nanoseconds() }
