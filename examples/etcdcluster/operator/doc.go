// Package operator manages the members that one region has of an etcd cluster, together with the operators of
// the other regions.
//
// A reconcile is a round: it reads what the operators have told each other, looks at the region's processes and
// at the system, and then lets small parts do their work one after the other: update the status, prepare what can be
// prepared without disturbing anybody, tell the others what is needed, and carry out orders; and then, as far as this
// operator acts for all, exclude members, change who leads, restart, remove and include. Nothing waits inside a round.
//
// It promises that one member at a time is disturbed, and only while the system keeps its quorum without it, which is
// looked at when it is done and not only when it was decided; that the leader comes last and gives its part away before;
// that in global mode one operator acts for all, and all others only on its orders; that whatever dies in between is picked
// up where it was; and that where there was a system no other one is started.
package operator
