// Package kubestore keeps what instances tell each other in the API server of one cluster, for instances that
// share it, in whatever namespaces they run.
//
// It promises what coordination.Store does. All entries are in one ConfigMap, because only one object can be read
// and written at one revision: a read is one read of it, and a commit is one update with the resourceVersion that
// was read before, done again from a new read when somebody else was faster. Reads are never from a cache.
//
// # Sessions
//
// A session is a line in the ConfigMap, so that its end, like everything else, is one update: a commit that was
// prepared before that and arrives after it is refused. A Lease object shows that the process of the session is
// alive, and is renewed every third of the session's duration. Any store that reads or watches looks at the Leases
// too, and ends a session whose Lease is gone or has not changed for the whole duration, measured on the clock of
// who looks; the times that are written in a Lease are for people. The owner of a session counts it as lost
// earlier, on its own clock. A session therefore ends only where somebody is there who wants to know.
//
// The duration of a session is a number of seconds, rounded up.
//
// # Limits
//
// A ConfigMap holds 1 MiB. Participants may fill a quarter of it with entries, which is about 900 members that are to be
// restarted; more are refused with coordination.ErrTooLarge (Transaction.Reserve). The rest is kept free for what is
// written while an action is carried out, so that the holder of the lock can always end it. Every
// commit writes all of it anew, and commits wait for each other: some tens in a second are possible, and about ten
// with 2,000 entries, which is plenty for operators that agree about disruptive actions. For more, and for instances
// in several clusters, use etcdstore.
//
// Deleting the ConfigMap while instances run ends all sessions and makes revisions begin anew. Do not.
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
// Give the client enough requests in a second (QPS and Burst of its configuration), or one of its own: a session is
// lost when its renewals have to wait behind other requests.
//
// # For people
//
//	kubectl get configmap ringmaster-coordination -o jsonpath='{.data.state}'
//	kubectl get leases -l ringmaster.sharding.timebertt.dev/coordination
package kubestore
