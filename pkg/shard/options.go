package shard

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
)

// Options say which ring to join and how. Only the ring has no default.
type Options struct {
	// Mode is how the instances share the work. By default this one is a shard, and an external sharder
	// tells it on what to work.
	Mode Mode
	// Ring is the name of the ring to join: of the ControllerRing, if the sharder is external. All
	// modes name their Leases and labels after it.
	Ring string
	// Name is the name of this shard, no other may have it. By default it is $POD_NAME, or else the
	// host's name, which is the pod's.
	Name string
	// Namespace is where the shard's Lease is. By default it is $POD_NAMESPACE, or else the pod's.
	Namespace string

	// NamespaceSelector selects the namespaces whose objects the in-process sharder assigns. By default these are the
	// manager's Cache.DefaultNamespaces, or else all but kube-system and sharding-system. For an external sharder the
	// ControllerRing selects them: if the manager's cache is restricted to namespaces, its namespaceSelector must select
	// the same.
	NamespaceSelector *metav1.LabelSelector

	// LeaseDuration, RenewDeadline and RetryPeriod are as in leader election, with its defaults: 15 s,
	// 10 s and 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	// DrainGrace is how long a reconcile may go on when the release of its object is asked for. After that its context
	// ends. By default it is 5 s.
	DrainGrace time.Duration
	// HandOver is how long leaving may take: when the manager is stopped, each object is worked on until it is handed
	// over to its next owner. The sharder moves what is left after that time. By default it is five sixths of the
	// manager's GracefulShutdownTimeout, or 25 s if that is without limit. A negative value turns it off.
	HandOver time.Duration
	// ConcurrentHandOvers is how many objects are handed over at the same time. By default it is 50.
	ConcurrentHandOvers int
}

const (
	defaultDrainGrace          = 5 * time.Second
	defaultHandOver            = 25 * time.Second
	defaultConcurrentHandOvers = 50
	// namespaceFile is where a pod finds the name of its namespace.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// complete fills in what is not set, and tells what cannot be found out.
func (o Options) complete() (Options, error) {
	o.Mode = cmp.Or(o.Mode, ModeShard)
	if err := new(Mode).Set(string(o.Mode)); err != nil {
		return o, err
	}
	if o.Ring == "" {
		return o, errors.New("Options.Ring is required: set it to the name of a ControllerRing")
	}
	if o.Name = cmp.Or(o.Name, os.Getenv("POD_NAME")); o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("this shard has no name (set Options.Name): %w", err)
		}
		o.Name = strings.ToLower(host)
	}
	if o.Namespace = cmp.Or(o.Namespace, os.Getenv("POD_NAMESPACE")); o.Namespace == "" {
		namespace, err := os.ReadFile(namespaceFile)
		switch {
		case err == nil:
			o.Namespace = strings.TrimSpace(string(namespace))
		case o.Mode == ModeAlone: // it has no Lease
			o.Namespace = metav1.NamespaceDefault
		default:
			return o, errors.New("the namespace of the lease is not known outside a pod: set Options.Namespace or $POD_NAMESPACE")
		}
	}
	if o.ConcurrentHandOvers < 0 || o.DrainGrace < 0 {
		return o, errors.New("Options.ConcurrentHandOvers and Options.DrainGrace must not be negative")
	}
	times := o.times().WithDefaults()
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = times.LeaseDuration, times.RenewDeadline, times.RetryPeriod
	o.DrainGrace = cmp.Or(o.DrainGrace, defaultDrainGrace)
	o.ConcurrentHandOvers = cmp.Or(o.ConcurrentHandOvers, defaultConcurrentHandOvers)
	return o, nil
}

func (o Options) times() membership.Times {
	return membership.Times{LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod}
}
