// Package coordination lets instances of an operator, each in its own namespace, cluster or region, agree
// before they do something that disturbs the one system which they manage together.
//
// Every instance says which members of the system it has to remove, exclude, include or restart, and which
// of them it is ready for. An action may begin when all that is pending for it is ready, read at one revision
// of the store, and nothing has changed for a while. One instance then carries it out for all, under a lock.
//
// It promises that only one instance at a time holds the lock, that the tokens of the lock only grow, that
// nothing is written under a token that is not the newest one, that what was begun is written down before and
// after, so that another instance goes on with what one has left behind, and that an action which was carried
// out is not carried out again for the same entries. Clocks of other machines decide nothing.
//
// It does not promise that a holder which hangs does nothing to the system itself when it wakes up: what it
// does has to be idempotent, and where the system can look at a token, it is told one. It does not promise
// either that instances wait for one that has not yet said what it needs: that is what the quiet window is for.
//
// A Store keeps all of it: etcdstore in etcd, also in the one that is managed, kubestore in the API server of
// one cluster.
package coordination
