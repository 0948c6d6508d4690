// Package etcdstore keeps what instances tell each other in etcd, which may be the system that they manage.
//
// It promises what coordination.Store does: a read is one transaction of linearizable reads and a commit is one
// transaction, so both have one revision.
//
// # Sessions
//
// A session is a lease of etcd, to which its entries are attached, and a key that its owner writes every third of the
// session's duration. Any store that reads or watches looks at those keys too, and revokes the lease of a session whose
// key has not been written for the whole duration, measured on the clock of who looks. The owner of a session counts it
// as lost earlier, on its own clock. A session therefore ends only where somebody is there who wants to know.
//
// The lease itself lasts for an hour or more without being renewed, because etcd keeps the times of leases in the
// memory of its leader: one that hangs and goes on when another leads already may confirm renewals that nobody else
// knows of, and revoke what others have renewed (https://github.com/etcd-io/etcd/issues/15247). The writes are
// decided by most members, as everything else here.
//
// So a session adds a small version of a key every few seconds. Let etcd compact its history
// (--auto-compaction-retention), as it should anyway.
//
// # The client
//
// New takes a client that is otherwise yours: endpoints, TLS and user are its business. Set its DialKeepAliveTime and
// DialKeepAliveTimeout to about 10 seconds, or a watch on a connection that was cut without a word goes on waiting
// for many minutes; etcd ends connections that ask more often than every 5 seconds. Where etcd has users, the client's
// has to be allowed to read and write below the root of the keys, where by default the sessions are too.
//
// # Limits
//
// etcd takes 128 operations in a transaction unless its --max-txn-ops says otherwise. A commit has one operation
// for each of its own, two for each that deletes also what is below; its conditions are counted by themselves, and
// one about a path counts as two. A read has two for each path. A request is limited to 1.5 MiB
// (--max-request-bytes). What is more than that is refused with coordination.ErrTooLarge.
//
// # For people
//
//	etcdctl get --prefix /ringmaster.sharding.timebertt.dev/   # what the instances have said, and their sessions
//	etcdctl lease timetolive --keys <session>                  # the entries that end with a session
package etcdstore
