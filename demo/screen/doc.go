// Package screen gives a program the whole terminal of a person to draw in, and the keys that are
// pressed.
//
// It promises that the terminal is as it was before when the program has ended, however it ends, also by
// SIGKILL: a small guard, which is this same executable started again, waits for that. And it draws only
// what has changed, in one write, so that nothing flickers.
package screen
