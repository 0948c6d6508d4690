package doctor

import (
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Read is something that was read from the cluster, or the reason why it was not.
type Read[T any] struct {
	Value T
	Err   error
}

func (r Read[T]) known() bool { return r.Err == nil }

// Facts are all facts that the checks depend on.
type Facts struct {
	// Now is the time by the clock of the API server.
	Now     time.Time
	Version Read[*version.Info]
	// Only are the names of the rings to check. Empty means all rings.
	Only []string

	// CRD is the installed definition of ControllerRing, or nil. EmbeddedCRD is the one of this program.
	CRD         Read[map[string]any]
	EmbeddedCRD map[string]any

	Rings Read[[]shardingv1alpha1.ControllerRing]
	// Leases are those of shards and of in-process sharders.
	Leases     Read[[]coordinationv1.Lease]
	Namespaces Read[[]metav1.PartialObjectMetadata]
	Served     Read[Served]

	Sharder  SharderFacts
	Webhooks Read[[]admissionregistrationv1.MutatingWebhookConfiguration]
	Services map[types.NamespacedName]*ServiceFacts
	// Certificate is the certificate that the sharder serves, PEM-encoded. It is empty if there is none,
	// and unreadable for most users.
	Certificate Read[[]byte]
	// CertificateSecret is the name of the Secret with the certificate.
	CertificateSecret string
	// Probes are the results of dry-run creates by ring.
	Probes map[string]Probe

	// ShardAccounts are the ServiceAccounts of the shards by ring.
	ShardAccounts map[string]Read[[]types.NamespacedName]
	Access        Read[[]Access]
}

// SharderFacts are the facts about the external sharder.
type SharderFacts struct {
	Namespace string
	// Election is the Lease of its leader election, or nil.
	Election Read[*coordinationv1.Lease]
	Pods     Read[[]corev1.Pod]
	// Account is its ServiceAccount, or nil.
	Account *types.NamespacedName
}

// ServiceFacts are the facts about a Service that webhooks refer to.
type ServiceFacts struct {
	// Service is nil if it does not exist.
	Service Read[*corev1.Service]
	// Ready is the number of ready endpoints.
	Ready Read[int]
}

// Served are the resources that the API server serves.
type Served struct {
	Resources map[schema.GroupResource]ServedResource
	// Failed are the groups whose resources could not be discovered, with the errors.
	Failed map[string]error
}

// ServedResource is a resource that the API server serves.
type ServedResource struct {
	schema.GroupVersionKind
	Namespaced bool
}

// Probe is the result of a dry-run create of an object that the webhook of a ring should label.
type Probe struct {
	// Object is the object, as TYPE/NAMESPACE/NAME.
	Object string
	// Labelled is true if the webhook assigned the object.
	Labelled bool
	// Err is why the object could not be created, which says nothing about the webhook.
	Err error
}

// Access is the answer to whether a ServiceAccount may do something.
type Access struct {
	Question
	Allowed bool
}

func (f *Facts) selects(ring string) bool {
	return len(f.Only) == 0 || slices.Contains(f.Only, ring)
}
