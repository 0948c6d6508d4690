// Package supervisor keeps processes running, as a kubelet keeps containers running: one that ends is
// started again under its name, after a while that grows with each failure.
//
// It promises that a process does what it was told last, that everything which happens to a process is
// told, and that Close leaves none behind, in bounded time.
package supervisor
