package coordination

import (
	"errors"
	"fmt"
	"time"
)

// Missing says what becomes of a member that is not ready, or whose instance is gone: nobody would carry out what is done to
// it.
type Missing string

const (
	// Wait means to wait for every member and its instance, however long it takes. It is the default.
	Wait Missing = "Wait"
	// GoOn means to act after a time on those that are ready, and whose instances are alive.
	GoOn Missing = "GoOn"
	// LeaveOut means to leave out the members of instances that are gone, and to wait for the others.
	LeaveOut Missing = "LeaveOut"
)

// Policy says how patient an action is.
type Policy struct {
	// Quiet is how long no member may have been added to those that are pending, or withdrawn, before the action
	// begins. It is measured by this instance's clock, from when it saw the change.
	Quiet time.Duration
	// Missing says what becomes of a member that is not ready or whose instance is gone, Wait if it is not set.
	Missing Missing
	// After is how long GoOn waits, after the last change that was seen.
	After time.Duration
}

func (p Policy) check() error {
	switch p.Missing {
	case "", Wait, LeaveOut:
		if p.After != 0 {
			return fmt.Errorf("a time to wait is only for %s", GoOn)
		}
	case GoOn:
		if p.After <= 0 {
			return fmt.Errorf("%s needs a time to wait", GoOn)
		}
	default:
		return fmt.Errorf("%q is none of %s, %s and %s", p.Missing, Wait, GoOn, LeaveOut)
	}
	if p.Quiet < 0 {
		return errors.New("the quiet window is negative")
	}
	return nil
}
