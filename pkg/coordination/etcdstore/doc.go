// Package etcdstore keeps what instances tell each other in etcd, which may be the system that they manage.
//
// It promises what coordination.Store does: a read is one transaction of linearizable reads and a commit is one
// transaction, so both have one revision; a session is a lease, and counts as lost on the local clock before
// etcd can have ended it.
//
// # The client
//
// New takes a client that is otherwise yours: endpoints, TLS and user are its business. Set its DialKeepAliveTime and
// DialKeepAliveTimeout to about 10 seconds, or a watch on a connection that was cut without a word goes on waiting
// for many minutes; etcd ends connections that ask more often than every 5 seconds. Where etcd has users, the client's
// has to be allowed to read and write below the root of the keys.
//
// # Limits
//
// etcd takes 128 operations in a transaction unless its --max-txn-ops says otherwise. A commit has one operation
// for each of its own, two for each that deletes also what is below; its conditions are counted by themselves, and
// one about a path counts as two. A read has two for each path. A request is limited to 1.5 MiB
// (--max-request-bytes). What is more than that is refused with coordination.ErrTooLarge.
//
// The duration of a session is a number of seconds, rounded up, and at least what etcd grants, which is 2 with its
// default times of election.
//
// # For people
//
//	etcdctl get --prefix /ringmaster        # what the instances have said
//	etcdctl lease timetolive --keys <ID>    # a session, by its ID, and the entries that end with it
package etcdstore
