// Package screen draws on the whole terminal, and reads keys.
//
// It guarantees that the terminal is restored when the program ends, even by SIGKILL: a watchdog
// process, which is the same executable started again, waits for the end of the program. It writes
// only the lines that have changed, in one write, so that the terminal does not flicker.
package screen
