// Package process runs other programs and promises that none of them outlives this one.
//
// Each program has its own process group, so that Ctrl-C in the terminal reaches only this process,
// which can then stop its children in the right order. However this process ends, also by SIGKILL,
// its children are killed and the folders of RemoveOnExit are removed: by the parent-death signal on
// Linux, and everywhere by a reaper, a second process of the same executable.
package process
