// Package plan decides in which order the members of an etcd cluster are restarted, replaced and removed.
//
// It promises that the leader is disturbed last and gives its part away before, to a member that stays, so that
// a whole plan changes the leader at most once; that a member is taken away only after the one that takes its
// place has a vote; and that one member at a time is disturbed. It does nothing itself and knows no clock.
package plan
