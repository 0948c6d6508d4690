// Package coordination lets the operators of one system, each in its own namespace, cluster or region, agree before they do
// something that disturbs it.
//
// Every participant declares which of its members need an action, and which of them are ready for it. An action may begin when
// all members that need it are ready, read at one revision of the store, and nothing has changed for a while. One participant
// then acts for all, under a lock. An adopter implements System, and calls Coordinator.Reconcile, which does all of it in the only
// safe order.
//
// It promises that only one participant at a time holds the lock, that the tokens of the lock only grow, that nothing is written
// under an old token, that what is done is written down before and after, so that another participant continues it, that an order
// is accepted before it is carried out and not withdrawn after that, and that an action which was carried out is not carried out
// again for the same entries. Clocks of other machines decide nothing.
//
// It does not promise that a holder which hangs does nothing to the system itself when it wakes up: what it does has to be
// idempotent, and a system that can compare tokens is given one. Nor does it promise that a participant which has not yet said what
// it needs is waited for, unless it is expected: that is what the quiet window is for.
//
// A kv.Store keeps all of it: etcdstore in etcd, also in the one that is managed, kubestore in the API server of one cluster.
package coordination
