// Package coordination lets the operators of one system, each in its own namespace, cluster or region, agree before they
// disturb it.
//
// Every participant declares which of its members need an action, and which of them are ready for it. An action may begin when
// all members that need it are ready, read at one revision of the store, and no need has changed during a quiet window. Then one
// participant acts for all, under a lock. An adopter implements System and calls Coordinator.Reconcile, which performs these steps
// in the only safe sequence.
//
// The package guarantees:
//
//   - Only one participant at a time holds the lock. Its fencing tokens only grow, and no write under an old token succeeds.
//   - An action is recorded as an intent before it begins and as done when it ends, so that another participant can continue it.
//   - A participant accepts an order before it carries the order out. An accepted order is withdrawn only when the system refuses
//     it (Fencer), or when a person abandons the action.
//   - A completed action is not repeated for the same entries.
//   - No decision depends on the clock of another machine.
//
// It does not guarantee that a holder which hangs leaves the system alone when it resumes: its steps have to be idempotent, and
// a system that can compare tokens should refuse old ones. Nor does it guarantee to wait for a participant that has not yet
// declared its needs, unless the participant is expected: that is the purpose of the quiet window.
//
// A kv.Store keeps the state: etcdstore in etcd, which can be the managed one, kubestore in the API server of one cluster.
package coordination
