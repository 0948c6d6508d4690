// Package operator is what a team writes that runs NATS in several regions: what its servers need, in which order they are disturbed,
// and how. Everything else is done by pkg/coordination.
//
// It promises that a server is restarted or ended only while all others are up to date, that others lead its streams before that,
// and that servers which cannot talk to each other are upgraded together.
package operator
