// Package system is what the operators know of the etcd cluster that they manage, and what they do to it. It promises
// that
//
//   - what it tells is what a quorum agrees on, or says that it is not;
//   - a member that is dead or hangs makes an answer poorer and not late: every member is asked by itself, and has a
//     second;
//   - what was done already is no error when it is asked for again.
//
// It decides nothing: which member goes when is for others to say.
package system
