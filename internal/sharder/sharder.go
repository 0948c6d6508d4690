// Package sharder puts the external sharder together: controllers for rings, Leases and moves, of
// which one replica runs each, and the webhook, which every replica serves.
//
// It promises that its cost does not grow with the number of objects that it spreads: it watches
// rings, the Leases of shards and the names of namespaces, and nothing else.
package sharder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/sharder/admission"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/metrics"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

// Scheme has all kinds that the sharder reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, shardingv1alpha1.AddToScheme, configv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// CacheOptions keep everything out of the cache that is not ours.
func CacheOptions() cache.Options {
	ours, err := labels.NewRequirement(shardingv1alpha1.LabelControllerRing, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	selector := labels.NewSelector().Add(*ours)
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}:                                 {Label: selector},
			&admissionregistrationv1.MutatingWebhookConfiguration{}: {Label: selector},
		},
	}
}

// Authority is what vouches for the webhook's certificate.
type Authority interface {
	// Bundle is what API servers have to trust, or nothing if somebody else tells them.
	Bundle() []byte
	// Notify makes changed be called when there is another bundle.
	Notify(changed func())
}

// Sharder is the sharder of one process.
type Sharder struct {
	manager   manager.Manager
	config    *configv1alpha1.SharderConfig
	authority Authority
	metrics   *metrics.Metrics
	members   *members.Tracker
	rings     *catalog.Catalog
	group     *moves.Group
	seeker    *seeker
	clock     clock.WithTicker
	news      *news
}

// Add adds the sharder to a manager.
func Add(mgr manager.Manager, config *configv1alpha1.SharderConfig, authority Authority) error {
	s := &Sharder{
		manager: mgr, config: config, authority: authority,
		metrics: metrics.New(ctrlmetrics.Registry),
		rings:   &catalog.Catalog{},
		clock:   clock.RealClock{},
		news:    newNews(),
	}
	s.members = members.New(s.clock, s.metrics.Calculated)
	authority.Notify(s.newBundle)
	client, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client for metadata: %w", err)
	}
	s.group = moves.NewGroup(s.moveOptions(client), s.news.about)
	s.seeker = newSeeker(s.group.Mover())
	if err := errors.Join(mgr.Add(s.group), mgr.Add(s.seeker), s.addControllers()); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(shardingv1alpha1.WebhookPathPrefix, s.handler())
	return nil
}

func (s *Sharder) moveOptions(client metadata.Interface) moves.Options {
	return moves.Options{
		Metadata: client,
		Rings:    s.rings,
		Members:  s.members,
		Selects:  s.selects,
		Report: func(ring string, resource schema.GroupResource, action assignment.Action) {
			if action == assignment.Drain {
				s.metrics.Drained(ring, resource)
			} else if action != assignment.Undrain {
				s.metrics.Moved(ring, resource)
			}
		},
		Synced: func(ring string, counts moves.Counts, _ error) {
			s.metrics.Synced(ring, counts.Objects, counts.Unassigned, counts.Took)
		},
		Drained: func(ring string, report moves.DrainReport) {
			s.metrics.Draining(ring, report.Outstanding, report.Oldest)
		},
		SyncPeriod:      s.config.Controller.Sharder.SyncPeriod.Duration,
		ConcurrentMoves: int(*s.config.Controller.Sharder.ConcurrentMoves),
		Clock:           s.clock,
	}
}

// selects tells whether a ring spreads the objects of a namespace.
func (s *Sharder) selects(declared *catalog.Ring, name string) bool {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := s.manager.GetCache().Get(context.Background(), client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy)
	return err == nil && declared.Namespaces.Matches(labels.Set(namespace.Labels))
}

// learn makes a ring known to this process.
func (s *Sharder) learn(declared *shardingv1alpha1.ControllerRing) (*catalog.Ring, error) {
	s.members.Declare(declared.Name, declared.Spec.ShardNamespaces)
	known, err := catalog.Resolve(declared, s.manager.GetRESTMapper(), s.config.Webhook.Config.NamespaceSelector)
	if known != nil {
		s.rings.Set(known)
	}
	return known, err
}

func (s *Sharder) forget(ring string) {
	s.rings.Delete(ring)
	s.members.Drop(ring)
	s.metrics.Forget(ring)
}

func (s *Sharder) handler() http.Handler {
	return &admission.Handler{
		Rings:   s.rings,
		Members: s.members,
		Locate: func(ctx context.Context, ring string, owner catalog.Owner) (string, error) {
			declared := s.rings.Get(ring)
			if declared == nil {
				return "", fmt.Errorf("the ring %q is not known", ring)
			}
			return s.group.Mover().Locate(ctx, declared, owner)
		},
		Report: func(ring string, resource schema.GroupResource, result admission.Result, took time.Duration) {
			s.metrics.Admission(ring, string(result), took)
			switch result {
			case admission.Assigned:
				s.metrics.Assigned(ring, resource)
			case admission.Postponed:
				s.seeker.seek(ring)
			case admission.Kept, admission.Failed:
			}
		},
		Now: s.clock.Now,
	}
}

// newBundle makes all webhook configurations be written anew.
func (s *Sharder) newBundle() {
	for _, name := range s.rings.Names() {
		s.news.about(name)
	}
}
