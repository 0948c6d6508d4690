// Package load generates the load of an experiment: it creates, changes and deletes Websites as a scenario plans, and measures
// how long it takes until each of them is Ready again.
//
// It promises an open loop: operations are due at planned times, whether or not earlier ones have returned, and every duration
// counts from the due time. A system that answers slowly cannot hide behind a generator that waits for it. Operations on one
// Website run in order.
package load
