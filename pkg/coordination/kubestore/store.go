package kubestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/staleness"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// DefaultName is the default name of a store.
	DefaultName = "ringmaster-coordination"
	// DefaultTimeout is the default timeout of a request.
	DefaultTimeout = 10 * time.Second
	// LabelStore is the label on the Leases of a store's sessions. Its value is the name of the store.
	LabelStore = "ringmaster.sharding.timebertt.dev/coordination"
)

// Clients are the clients that a store needs. A clientset of client-go implements it.
type Clients interface {
	CoreV1() corev1client.CoreV1Interface
	CoordinationV1() coordinationv1client.CoordinationV1Interface
}

// Options configure a store. Namespace is required.
type Options struct {
	// Namespace is the namespace of the ConfigMap and the Leases. All participants have to use the same namespace.
	Namespace string
	// Name is the name of the ConfigMap, and the prefix of the names of the Leases. It defaults to DefaultName.
	Name string
	// Timeout is the timeout of a request. It defaults to DefaultTimeout.
	Timeout time.Duration
	// Clock is for tests.
	Clock clock.Clock
}

// store is a kv.Store in one ConfigMap.
type store struct {
	configMaps corev1client.ConfigMapInterface
	core       corev1client.CoreV1Interface
	leases     coordinationv1client.LeaseInterface
	namespace  string
	name       string
	timeout    time.Duration
	clock      clock.Clock
	tracker    *staleness.Tracker

	mu sync.Mutex
	// sessions are the sessions of this process in the ConfigMap, by ID.
	sessions map[string]*session
}

// New returns a store that uses the clients.
func New(clients Clients, options Options) (kv.Store, error) {
	if options.Namespace == "" {
		return nil, errors.New("Options.Namespace is empty: set it to the namespace that all participants share")
	}
	options.Name = cmp.Or(options.Name, DefaultName)
	// The name becomes the value of a label.
	if problems := validation.IsDNS1123Label(options.Name); len(problems) > 0 {
		return nil, fmt.Errorf("%q cannot be the name of a store: %s", options.Name, strings.Join(problems, ", "))
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &store{
		configMaps: clients.CoreV1().ConfigMaps(options.Namespace),
		core:       clients.CoreV1(),
		leases:     clients.CoordinationV1().Leases(options.Namespace),
		namespace:  options.Namespace,
		name:       options.Name,
		timeout:    cmp.Or(options.Timeout, DefaultTimeout),
		clock:      options.Clock,
		tracker:    &staleness.Tracker{},
		sessions:   map[string]*session{},
	}, nil
}

// Read implements kv.Store.
func (s *store) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	if err := keys.CheckPaths(paths...); err != nil {
		return nil, err
	}
	current, err := s.readAndEndExpired(ctx)
	if err != nil {
		return nil, err
	}
	return current.snapshot(paths), nil
}

// Commit implements kv.Store.
func (s *store) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if err := keys.Check(transaction); err != nil {
		return 0, err
	}
	return s.update(ctx, transaction.Reserve, func(current *state) (bool, error) {
		// Checked for each attempt: the process may have hung since the last one.
		if err := s.checkSessions(transaction.Then); err != nil {
			return false, err
		}
		return current.commit(transaction)
	})
}

// checkSessions returns ErrSessionLost for an entry of a session that this process counts as lost. The store may still have the
// session.
func (s *store) checkSessions(operations []kv.Operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, operation := range operations {
		if own := s.sessions[operation.Session]; own != nil && !own.Alive() {
			return fmt.Errorf("%w: %s", kv.ErrSessionLost, operation.Session)
		}
	}
	return nil
}
