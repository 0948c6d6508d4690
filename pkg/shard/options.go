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

// Options are the options of a shard. Only Ring is required.
type Options struct {
	// Mode is how the processes of the operator divide its objects. By default this process is a shard,
	// and an external sharder assigns objects to it.
	Mode Mode
	// Ring is the name of the ring to join. With an external sharder it is the name of the
	// ControllerRing. In all modes it is part of the names of Leases and labels.
	Ring string
	// Name is the name of this shard. It must be unique in the ring. By default it is $POD_NAME, or
	// else the hostname, which is the name of the pod.
	Name string
	// Namespace is the namespace of the shard's Lease. By default it is $POD_NAMESPACE, or else the
	// namespace of the pod.
	Namespace string

	// NamespaceSelector selects the namespaces whose objects the in-process sharder assigns. By default
	// these are the manager's Cache.DefaultNamespaces, or else all but kube-system and sharding-system.
	//
	// An external sharder uses the namespaceSelector of the ControllerRing instead. If the manager's cache
	// is restricted to namespaces, that selector must select the same namespaces.
	NamespaceSelector *metav1.LabelSelector

	// LeaseDuration, RenewDeadline and RetryPeriod are those of leader election and have its defaults:
	// 15 s, 10 s and 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	// DrainGrace is how long a reconcile may continue after the drain of its object has begun. After
	// that its context ends. By default it is 5 s.
	DrainGrace time.Duration
	// HandoverTimeout is how long the handover may take when the manager is stopped. By default it is five sixths
	// of the manager's GracefulShutdownTimeout, or 25 s if that has no limit; a negative value disables the
	// handover.
	//
	// The shard reconciles each object until it has handed it over to its next owner. The sharder moves the
	// objects that remain after that time.
	HandoverTimeout time.Duration
	// MaxConcurrentReleases is the number of objects that are released at the same time. By default it
	// is 50.
	MaxConcurrentReleases int
}

const (
	defaultDrainGrace            = 5 * time.Second
	defaultHandoverTimeout       = 25 * time.Second
	defaultMaxConcurrentReleases = 50
	// namespaceFile contains the name of the namespace in a pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// complete sets the defaults. It returns an error if a value is missing or invalid.
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
			return o, fmt.Errorf("reading the hostname (set Options.Name): %w", err)
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
			return o, errors.New("the namespace of the shard's lease is unknown outside a pod: set Options.Namespace or $POD_NAMESPACE")
		}
	}
	if o.MaxConcurrentReleases < 0 || o.DrainGrace < 0 {
		return o, errors.New("Options.MaxConcurrentReleases and Options.DrainGrace must not be negative: leave them unset for the defaults")
	}
	times := o.times().WithDefaults()
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = times.LeaseDuration, times.RenewDeadline, times.RetryPeriod
	o.DrainGrace = cmp.Or(o.DrainGrace, defaultDrainGrace)
	o.MaxConcurrentReleases = cmp.Or(o.MaxConcurrentReleases, defaultMaxConcurrentReleases)
	return o, nil
}

func (o Options) times() membership.Times {
	return membership.Times{LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod}
}
