package observer

import coordinationv1 "k8s.io/api/coordination/v1"

// LeaderOf is leaderOf, for the tests.
var LeaderOf = leaderOf

// SeeLease is what a watch on Leases does.
func (s *Scene) SeeLease(lease *coordinationv1.Lease) { s.seeLease(lease) }
