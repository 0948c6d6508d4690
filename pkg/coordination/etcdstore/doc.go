// Package etcdstore is a kv.Store in etcd, which may be the etcd that the participants manage.
//
// It fulfils the contract of kv.Store: a read is one transaction of linearizable reads and a commit is one transaction,
// so both have one revision.
//
// # Sessions
//
// A session is a lease of etcd, to which its entries are attached, and a key that its owner writes every third of the
// session's duration. Any store that reads or watches also observes those keys, and revokes the lease of a session whose
// key has not been written for the whole duration, measured by the clock of the observer. The owner of a session counts it
// as lost earlier, by its own clock. A session therefore ends only while another process reads or watches the store.
//
// The lease itself lasts for an hour or more without a renewal, because etcd keeps the times of leases in the memory of its
// leader: a leader that hangs and resumes after another one was elected may confirm renewals that no other member has seen,
// and revoke leases that were renewed (https://github.com/etcd-io/etcd/issues/15247). The writes of the key need a quorum.
//
// A session therefore adds a small revision of a key every few seconds. Let etcd compact its history
// (--auto-compaction-retention).
//
// # The client
//
// New takes a client with your endpoints, TLS configuration and user. Set its DialKeepAliveTime and DialKeepAliveTimeout to
// about 10 seconds: otherwise a watch on a connection that was silently cut waits for many minutes. etcd closes connections
// with keepalives more often than every 5 seconds. If etcd has authentication enabled, the user needs permission to read and
// write below the root of the keys, which by default contains the sessions.
//
// # Limits
//
// etcd limits a transaction to 128 operations (--max-txn-ops). A commit has one for each of its operations, and two for
// DeleteBelow. Conditions are counted separately; a condition on a path counts as two. A read has two for each path. A
// request is limited to 1.5 MiB (--max-request-bytes). Larger requests are refused with kv.ErrTooLarge.
//
// # Inspection
//
//	etcdctl get --prefix /ringmaster.sharding.timebertt.dev/   # the entries of the participants, and their sessions
//	etcdctl lease timetolive --keys <session>                  # the entries that end with a session
package etcdstore
