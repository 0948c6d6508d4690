// Package supervisor keeps processes running, as a kubelet keeps containers running: a process that
// exits is restarted under its name, with a backoff that grows with each failure in a row.
//
// It guarantees that a process follows the last command that it was given, that everything that
// happens to a process is reported, and that Close leaves no process behind, in bounded time.
package supervisor
