package etcdstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// comparisons returns the comparisons of etcd for conditions. A missing key has revision 0, also in a comparison of a range.
func comparisons(conditions []kv.Condition) []clientv3.Cmp {
	var all []clientv3.Cmp
	for _, condition := range conditions {
		if condition.Key != "" {
			all = append(all, clientv3.Compare(clientv3.ModRevision(condition.Key), "=", condition.Version))
			continue
		}
		// No single range contains the path and the keys below it without siblings such as a/dc1-old.
		next := condition.Since + 1
		all = append(all,
			clientv3.Compare(clientv3.ModRevision(condition.Path), "<", next),
			clientv3.Compare(clientv3.ModRevision(condition.Path+"/"), "<", next).WithPrefix())
	}
	return all
}

// operations returns the operations of etcd.
func (s *store) operations(operations []kv.Operation) ([]clientv3.Op, error) {
	var all []clientv3.Op
	for _, operation := range operations {
		switch {
		case operation.Delete && operation.Below:
			all = append(all, clientv3.OpDelete(operation.Key), clientv3.OpDelete(operation.Key+"/", clientv3.WithPrefix()))
		case operation.Delete:
			all = append(all, clientv3.OpDelete(operation.Key))
		case operation.Session == "":
			all = append(all, clientv3.OpPut(operation.Key, operation.Value))
		default:
			lease, err := s.leaseOf(operation.Session)
			if err != nil {
				return nil, err
			}
			all = append(all, clientv3.OpPut(operation.Key, operation.Value, clientv3.WithLease(lease)))
		}
	}
	return all, nil
}

// leaseOf returns the lease of a session, or ErrSessionLost.
func (s *store) leaseOf(id string) (clientv3.LeaseID, error) {
	s.mu.Lock()
	known := s.sessions[id]
	s.mu.Unlock()
	if known != nil && !known.Alive() {
		return 0, fmt.Errorf("%w: %s", kv.ErrSessionLost, id)
	}
	number, err := strconv.ParseUint(id, 16, 64)
	if err != nil || number == 0 {
		return 0, fmt.Errorf("invalid ID of a session in etcd: %q", id)
	}
	return clientv3.LeaseID(number), nil //nolint:gosec // it is written and read as the same 64 bits
}

// sessionID formats a lease as etcdctl does.
func sessionID(lease clientv3.LeaseID) string {
	if lease == clientv3.NoLease {
		return ""
	}
	return fmt.Sprintf("%016x", uint64(lease)) //nolint:gosec // it is written and read as the same 64 bits
}

// translateError maps errors of etcd to those of package kv.
func translateError(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return kv.ErrSessionLost
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: the limit is etcd's --max-txn-ops, 128 operations by default: %w", kv.ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), isMessageTooLarge(err):
		return fmt.Errorf("%w: the limit is etcd's --max-request-bytes, 1.5 MiB by default: %w", kv.ErrTooLarge, err)
	}
	return err
}

// isMessageTooLarge reports whether gRPC has refused a message because of its size, which has no error code of its own.
func isMessageTooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}
