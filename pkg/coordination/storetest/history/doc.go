// Package history records what clients of a store did at the same time, and checks that it could have been done one
// after the other.
//
// It promises that a history which passes is linearizable: there is an order of all operations, in which none is
// before one that had ended when it began, and in which each has the outcome that its client saw. An operation
// whose outcome nobody knows may be anywhere after its beginning, or not at all. A session ends once, somewhere
// after its owner was told that it is lost.
//
//	recorder := history.NewRecorder()
//	first, second := recorder.Store(0, first), recorder.Store(1, second)
//	… use them from several goroutines, the more at a time the better …
//	if err := history.Check(recorder.History(), time.Minute); err != nil {
//		t.Error(err)
//	}
//
// What is built upon stores can be recorded with Recorder.Begin, and checked with a model of its own.
//
// The checker is Porcupine.
package history
