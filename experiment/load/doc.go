// Package load is the users of an experiment: it makes, changes and deletes Websites as a scenario says, and sees how long it
// takes until each of them is as it was wanted.
//
// It promises that nothing is done to a Website before the last thing is done, that what cannot be done in time is done
// late and said to be late, and that its own slowness is not taken for the operator's.
package load
