// Package schedule decides when the sharder lists the objects of a ring, and when it retries what failed.
//
// It promises that no failure shortens the time to the next action below its backoff, however long the failure lasts: a
// kind that cannot be listed is retried alone, and neither delays nor repeats the others. It is pure: time is passed in.
package schedule
