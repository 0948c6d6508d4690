// Package view shows the state of the demo: as a live view on a terminal, or as lines in a log.
//
// It guarantees that the output depends on the State alone, that it fits a terminal of any size,
// and that text from the cluster cannot send control characters to the terminal.
package view
