package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/experiment/run"
)

// The errors of an experiment that has run.
var (
	errVerdict     = errors.New("not all objectives hold")
	errInterrupted = errors.New("interrupted: the report covers what has run")
	errIncomplete  = errors.New("not everything was executed or measured: see the report")
)

// ExitCode returns the exit code for an error: 3 if all runs are valid and complete, and an objective does not hold.
func ExitCode(err error) int {
	const failed, verdict = 1, 3
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errVerdict):
		return verdict
	}
	return failed
}

// invalid returns an error with the reasons why runs are invalid, nil if all are valid.
func invalid(results []*run.Result) error {
	var reasons []string
	for _, result := range results {
		for _, reason := range result.Invalid {
			reason = fmt.Sprintf("%s, %d×: %s", result.Setup, result.Instances, reason)
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return fmt.Errorf("the result is invalid: %s: choose a smaller --scale, or a machine without other load", strings.Join(reasons, "; "))
}

// conclude returns the error that results end with.
func conclude(results []*run.Result, interrupted bool) error {
	switch {
	case len(results) == 0:
		return errors.New("interrupted before anything was measured")
	case slices.ContainsFunc(results, func(r *run.Result) bool { return !r.Complete() }):
		return errIncomplete
	case invalid(results) != nil:
		return invalid(results)
	case interrupted: // before the verdict: a result of only some runs must not count as complete
		return errInterrupted
	case slices.ContainsFunc(results, (*run.Result).Failed):
		return errVerdict
	}
	return nil
}
