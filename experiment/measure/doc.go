// Package measure notes what processes say of themselves, and what the kernel says of them, and sums it up. It is
// Prometheus in a folder: its format, its storage, its language, without its server.
//
// It promises that nothing is lost which was noted before an interruption, and that a process which starts again, and
// counts from zero then, is counted right.
package measure
