// Package kubestore is a kv.Store in the API server of one cluster, for participants that share the cluster. They may run in
// different namespaces.
//
// It fulfils the contract of kv.Store. All entries are in one ConfigMap, because only one object can be read
// and written at one revision: a read is one read of it, and a commit is one update with the resourceVersion that
// was read before, retried from a new read after a conflict. Reads are never from a cache.
//
// # Sessions
//
// A session is a line in the ConfigMap, so that its end is an update too: a commit that was prepared before that and arrives after
// it is refused. A Lease object shows that the process of the session is
// alive, and is renewed every third of the session's duration. Any store that reads or watches also observes the Leases,
// and ends a session whose Lease is gone or has not changed for the whole duration, measured by the clock of
// the observer; the times in a Lease are informational. The owner of a session counts it as lost
// earlier, by its own clock. A session therefore ends only while another process reads or watches the store.
//
// The duration of a session is a number of seconds, rounded up.
//
// # Limits
//
// A ConfigMap holds 1 MiB. Participants may fill a quarter of it with entries, which is about 900 members that have to be
// restarted; more are refused with kv.ErrTooLarge (Transaction.Reserve). The rest is reserved for the writes of
// a running action, so that the holder of the lock can always end it. Every commit rewrites the whole ConfigMap, and
// commits wait for each other: some tens per second are possible, and about ten with 2,000 entries, which is enough
// for operators that agree about disruptive actions. For more, and for participants in several clusters, use etcdstore.
//
// Do not delete the ConfigMap while participants run: that ends all sessions and resets the revisions.
//
// # Permissions
//
// The client needs this Role in the namespace of the store, with the name of the store:
//
//	apiVersion: rbac.authorization.k8s.io/v1
//	kind: Role
//	metadata:
//	  name: ringmaster-coordination
//	rules:
//	- apiGroups: [""]
//	  resources: [configmaps]
//	  verbs: [create]
//	- apiGroups: [""]
//	  resources: [configmaps]
//	  resourceNames: [ringmaster-coordination]
//	  verbs: [get, watch, update]
//	- apiGroups: [coordination.k8s.io]
//	  resources: [leases]
//	  verbs: [get, list, create, update, delete]
//
// Give the client a sufficient rate limit (QPS and Burst of its configuration), or use a separate client: a session is
// lost when its renewals have to wait behind other requests.
//
// # Inspection
//
//	kubectl get configmap ringmaster-coordination -o jsonpath='{.data.state}'
//	kubectl get leases -l ringmaster.sharding.timebertt.dev/coordination
package kubestore
