package observer

import coordinationv1 "k8s.io/api/coordination/v1"

// LeaderOf exports leaderOf to the tests.
var LeaderOf = leaderOf

// ObserveLease does what the watch on Leases does.
func (o *Observer) ObserveLease(lease *coordinationv1.Lease) { o.observeLease(lease) }
