// Package operator manages the members that one region has of an etcd cluster, together with the operators of
// the other regions.
//
// A reconcile is a round: it reads what the operators have told each other, looks at the region's processes and
// at the system, and then lets small parts do their work one after the other: update the status, tell the others
// what is needed, prepare what can be prepared without disturbing anybody, carry out orders, and go on with what
// this operator does for all. Nothing waits inside a round.
//
// It promises that one member at a time is disturbed, and only while the system keeps its quorum without it; that
// the leader comes last and gives its part away before; that in global mode one operator acts for all, and all
// others only on its orders; and that whatever dies in between is picked up where it was.
package operator
