package app

import "errors"

// The exit codes of a command that checks something.
const (
	exitProblems   = 1 // it found problems
	exitNotChecked = 2 // it could not check
)

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// ExitCode returns the exit code of the program after an error: 1, unless a command documents another one.
func ExitCode(err error) int {
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return 1
}
