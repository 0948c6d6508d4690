// Package oracle checks the history of a run, and returns each violation of the promises of Ringmaster with
// the object, the processes and the time.
//
// It is a pure function of the history. A write counts from the time at which it was observed, which is never
// before the write, so a process that acted after that time acted after the write: a slow record causes no false
// violations. Where only the order of writes matters, their resourceVersions decide, not clocks.
//
// Like leader election, Ringmaster does not fence. A process that is paused for longer than its lease duration
// can be in a reconcile when it resumes, which is not a violation. Starting another reconcile is one.
package oracle
