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
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/sightings"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// DefaultName is the name of a store.
	DefaultName = "ringmaster-coordination"
	// DefaultTimeout is how long one request may take.
	DefaultTimeout = 10 * time.Second
	// LabelStore is on the Leases of a store's sessions. Its value is the name of the store.
	LabelStore = "ringmaster.sharding.timebertt.dev/coordination"
)

// Clients are what a store needs of a client of the API server. A clientset of client-go has them.
type Clients interface {
	CoreV1() corev1client.CoreV1Interface
	CoordinationV1() coordinationv1client.CoordinationV1Interface
}

// Options say where a store is. Namespace has to be set.
type Options struct {
	// Namespace is where the ConfigMap and the Leases are. All instances have to use the same.
	Namespace string
	// Name is the name of the ConfigMap and the beginning of the names of the Leases, DefaultName by default.
	Name string
	// Timeout is how long one request may take, DefaultTimeout by default. A context may end it earlier.
	Timeout time.Duration
	// Clock is the process's clock by default. Only how much time passes on it matters.
	Clock clock.Clock
}

// store is a coordination.Store in one ConfigMap.
type store struct {
	configMaps corev1client.ConfigMapInterface
	core       corev1client.CoreV1Interface
	leases     coordinationv1client.LeaseInterface
	namespace  string
	name       string
	timeout    time.Duration
	clock      clock.Clock
	seen       *sightings.Book

	mu sync.Mutex
	// sessions are those of this process that are in the ConfigMap, by ID.
	sessions map[string]*session
}

// New returns a store that uses the clients.
func New(clients Clients, options Options) (kv.Store, error) {
	if options.Namespace == "" {
		return nil, errors.New("the namespace of the store is not known: set it, to the same for all instances")
	}
	options.Name = cmp.Or(options.Name, DefaultName)
	// It becomes the value of a label.
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
		seen:       &sightings.Book{},
		sessions:   map[string]*session{},
	}, nil
}

// Read implements coordination.Store.
func (s *store) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	if err := keys.CheckPaths(paths...); err != nil {
		return nil, err
	}
	current, err := s.observed(ctx)
	if err != nil {
		return nil, err
	}
	return current.snapshot(paths), nil
}

// Commit implements coordination.Store.
func (s *store) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if err := keys.Check(transaction); err != nil {
		return 0, err
	}
	return s.change(ctx, transaction.Reserve, func(current *state) (bool, error) {
		// It is asked each time: the process may have hung since the last try.
		if err := s.checkSessions(transaction.Then); err != nil {
			return false, err
		}
		return current.commit(transaction)
	})
}

// checkSessions refuses what belongs to a session that its process counts as lost, and that others may not have
// ended yet.
func (s *store) checkSessions(operations []kv.Operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, operation := range operations {
		if own := s.sessions[operation.Session]; own != nil && !own.Held() {
			return fmt.Errorf("%w: %s", kv.ErrSessionLost, operation.Session)
		}
	}
	return nil
}
