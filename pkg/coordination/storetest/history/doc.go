// Package history records concurrent operations of a store's clients, and checks that they are linearizable.
//
// It guarantees that a history which passes is linearizable: an order of all operations exists in which no operation is before another
// one that had ended when it began, and each operation has the outcome that its client saw. An operation with an unknown outcome may be
// anywhere after its beginning, or missing. A session ends once, after its owner has seen that it is lost.
//
//	recorder := history.NewRecorder()
//	first, second := recorder.Store(0, first), recorder.Store(1, second)
//	… use them concurrently …
//	if err := history.Check(recorder.History(), time.Minute); err != nil {
//		t.Error(err)
//	}
//
// Use Recorder.Begin to record other operations, and check them with your own model.
//
// The checker is Porcupine.
package history
