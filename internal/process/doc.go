// Package process runs other programs and promises that none of them outlives this one.
//
// A program started here is a process group of its own, so that a Ctrl-C in the terminal reaches
// only this process, which can then stop its children in the right order. However this process
// ends, also by SIGKILL, its children are killed and the folders that it named are removed: the
// kernel does so on Linux (parent-death signal), and everywhere a small reaper does, which is this
// same executable started again.
package process
