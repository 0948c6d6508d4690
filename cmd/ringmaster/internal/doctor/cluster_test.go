package doctor_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/doctor"
	"github.com/ringmaster-project/ringmaster/config"
	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

// clusterPlanting makes one thing wrong that concerns all rings. It returns the access to use.
type clusterPlanting struct {
	plant  func(*fixture) *rest.Config
	status doctor.Status
	cause  string
	also   []doctor.Reason
}

var clusterPlantings = map[doctor.Reason]clusterPlanting{
	doctor.NotReadable: {
		plant: func(f *fixture) *rest.Config {
			role := doctor.Role()
			role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return rule.Resources[0] == "subjectaccessreviews" })
			return f.account(role)
		},
		status: doctor.Unknown, cause: "subjectaccessreviews.authorization.k8s.io is forbidden",
	},
	doctor.ServerTooOld: {
		plant: func(f *fixture) *rest.Config {
			proxy := f.Proxy(f.t)
			proxy.Answer("/version", []byte(`{"major": "1", "minor": "34", "gitVersion": "v1.34.7"}`))
			access := f.account(doctor.Role())
			access.Host = proxy.URL()
			return access
		},
		status: doctor.Failure, cause: "Kubernetes v1.34.7 is older than 1.35",
	},
	doctor.CRDMissing: {
		plant: func(f *fixture) *rest.Config {
			f.removeCRD()
			return f.Config
		},
		status: doctor.Failure, cause: "not found", also: []doctor.Reason{doctor.LeaseWithoutRing, doctor.WebhookStale},
	},
	doctor.CRDNotEstablished: {
		plant: func(f *fixture) *rest.Config {
			f.removeCRD()
			other := f.crd()
			other.SetName("rings.sharding.timebertt.dev")
			f.Expect(unstructured.SetNestedField(other.Object, "rings", "spec", "names", "plural")).To(Succeed())
			f.create(other)
			f.t.Cleanup(func() { _ = f.Client.Delete(context.Background(), other) })
			f.Eventually(func() string {
				f.Expect(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(other), other)).To(Succeed())
				return f.encode(other.Object["status"])
			}, rig.Timeout).Should(ContainSubstring("no conflicts found"))
			refused := f.crd()
			f.create(refused)
			f.Eventually(func() string {
				f.Expect(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(refused), refused)).To(Succeed())
				return f.encode(refused.Object["status"])
			}, rig.Timeout).Should(ContainSubstring("already in use"))
			return f.Config
		},
		status: doctor.Failure, cause: "already in use", also: []doctor.Reason{doctor.NotReadable},
	},
	doctor.CRDVersionNotServed: {
		plant: func(f *fixture) *rest.Config {
			return f.changeVersion(func(version map[string]any) { version["served"] = false })
		},
		status: doctor.Failure, cause: "the version v1alpha1 is not served", also: []doctor.Reason{doctor.NotReadable},
	},
	doctor.CRDOutdated: {
		plant: func(f *fixture) *rest.Config {
			return f.changeVersion(func(version map[string]any) {
				unstructured.RemoveNestedField(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "drain")
			})
		},
		status: doctor.Failure, cause: "lacks spec.drain:",
	},
	doctor.CRDNewer: {
		plant: func(f *fixture) *rest.Config {
			return f.changeVersion(func(version map[string]any) {
				f.Expect(unstructured.SetNestedField(version, "string", "schema", "openAPIV3Schema", "properties", "spec", "properties", "weights", "type")).To(Succeed())
			})
		},
		status: doctor.Warning, cause: "does not know: spec.weights",
	},
}

// crd is the definition of ControllerRing, as it is installed.
func (f *fixture) crd() *unstructured.Unstructured {
	f.t.Helper()
	objects, err := manifest.Read(config.Manifests, "crds/sharding.timebertt.dev_controllerrings.yaml")
	f.Expect(err).NotTo(HaveOccurred())
	return objects[0]
}

// restoreCRD makes the definition of ControllerRing as it should be when the test ends.
func (f *fixture) restoreCRD() {
	f.t.Cleanup(func() {
		ctx := context.Background()
		f.Eventually(func() error { return manifest.Apply(ctx, f.Client, "test", f.crd()) }, rig.Timeout).Should(Succeed())
		// For a moment, the API server may still serve the definition as it was.
		f.Eventually(func() error { return f.Client.List(ctx, &shardingv1alpha1.ControllerRingList{}) }, rig.Timeout, "200ms").
			MustPassRepeatedly(10).Should(Succeed())
	})
}

func (f *fixture) removeCRD() {
	f.t.Helper()
	f.restoreCRD()
	f.remove(f.crd())
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.crd()), f.crd()))
	}, rig.Timeout).Should(BeTrue())
}

func (f *fixture) changeVersion(mutate func(version map[string]any)) *rest.Config {
	f.t.Helper()
	f.restoreCRD()
	change(f, f.crd(), func(crd *unstructured.Unstructured) {
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		f.Expect(err).NotTo(HaveOccurred())
		mutate(versions[0].(map[string]any))
		f.Expect(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")).To(Succeed())
	})
	return f.Config
}

func TestPlantedFindingsOfTheCluster(t *testing.T) {
	for _, reason := range doctor.Reasons {
		planted, found := clusterPlantings[reason]
		if !found {
			continue
		}
		t.Run(string(reason), func(t *testing.T) {
			f := setUp(t)
			access := planted.plant(f)
			report := f.expect(access, f.options(), append(slices.Clone(planted.also), reason)...)
			f.expectFinding(report, reason, planted.status, planted.cause)
		})
	}
}

// TestHealthyRing finds nothing, also with nothing but the role that the command prints.
func TestHealthyRing(t *testing.T) {
	f := setUp(t)
	f.Expect(f.expect(f.Config, f.options()).Status).To(Equal(doctor.OK))
	access := f.account(doctor.Role())
	report := f.expect(access, f.options())
	f.Expect(report.Status).To(Equal(doctor.OK))
	f.Expect(f.encode(report)).To(ContainSubstring("the serving certificate could not be read"))
	report = f.expect(access, f.options(func(o *doctor.Options) { o.Probe = true }), doctor.WebhookNotProbed)
	f.Expect(f.encode(report)).To(ContainSubstring("run the command as a user who may create this object, or skip the probe with --probe=false"))
}

// TestHealthyRingInOneNamespace has shards that may use the objects only in the namespace that the ring selects.
func TestHealthyRingInOneNamespace(t *testing.T) {
	f := setUp(t)
	f.revoke("operator", "ring")
	ring := f.ring()
	ring.Spec.Resources = f.resources
	for _, object := range roles.ForShards(ring, types.NamespacedName{Namespace: f.Namespace, Name: "operator"}) {
		if role, is := object.(*rbacv1.ClusterRole); is {
			f.grant("operator", "namespaced", &rbacv1.Role{Rules: role.Rules})
		}
	}
	f.Expect(f.expect(f.Config, f.options()).Status).To(Equal(doctor.OK))
}

func TestHealthyRingWithInProcessSharder(t *testing.T) {
	f := setUp(t)
	f.runInProcess("shard-0_1234")
	f.Expect(f.expect(f.Config, f.options()).Status).To(Equal(doctor.OK))
}

// TestWebhookOfRealSharder finds nothing while a real sharder runs, whose webhook labels the object of a dry-run
// create, and that it is gone when it has stopped. The object is a child: an Ingress would need a spec.
func TestWebhookOfRealSharder(t *testing.T) {
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t}
	f.name = f.Namespace
	f.resources = []shardingv1alpha1.RingResource{{
		GroupResource:       shardingv1alpha1.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"},
		ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "configmaps"}},
	}}
	sharder := f.StartSharder(t, rig.SharderOptions{})
	f.declare()
	change(f, f.ring(), func(ring *shardingv1alpha1.ControllerRing) { ring.Spec.ShardNamespaces = []string{f.Namespace} })
	f.join("shard-0")
	f.addPod("shard-0", "operator", nil, "operator:1")
	f.grantAll()
	options := f.options(func(o *doctor.Options) {
		o.Probe, o.SharderAccount = true, &types.NamespacedName{Namespace: f.Namespace, Name: "sharder"}
	})
	f.Eventually(func(g Gomega) {
		report, err := doctor.Run(t.Context(), f.Config, options)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reasons(report)).To(BeEmpty(), "%s", f.encode(report))
		g.Expect(f.encode(report)).To(ContainSubstring("1 answered a dry-run create"))
	}, rig.Timeout, "500ms").Should(Succeed())
	stored := &corev1.ConfigMapList{}
	f.Expect(f.Client.List(t.Context(), stored, client.InNamespace(f.Namespace))).To(Succeed())
	f.Expect(stored.Items).To(BeEmpty())

	f.Expect(sharder.Terminate()).To(Succeed())
	f.Eventually(sharder.Done(), rig.Timeout).Should(BeClosed())
	f.expect(f.Config, options, doctor.SharderNotLeading, doctor.WebhookUnreachable)
}

// TestHangingAPIServer ends in time: with an error, or with what could be checked.
func TestHangingAPIServer(t *testing.T) {
	f := setUp(t)
	access := f.account(doctor.Role())
	proxy := f.Proxy(t)
	hanging := rest.CopyConfig(access)
	hanging.Host = proxy.URL()
	proxy.Cut(faultproxy.ToClient)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err := doctor.Run(ctx, hanging, f.options())
	f.Expect(err).To(MatchError(ContainSubstring("reaching the API server " + proxy.URL())))
	f.Expect(time.Since(began)).To(BeNumerically("<", 20*time.Second))

	partly := rest.CopyConfig(access)
	partly.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.Contains(request.URL.Path, "/leases") {
				<-request.Context().Done()
				return nil, request.Context().Err()
			}
			return next.RoundTrip(request)
		})
	})
	ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	report, err := doctor.Run(ctx, partly, f.options())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(report.Summary.Failures).To(BeZero(), "what is not known is not wrong: %s", f.encode(report))
	f.Expect(f.encode(report)).To(ContainSubstring("the timeout expired before it was read"))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// TestObjectsAreNeverListed counts the requests, which do not depend on the number of sharded objects.
func TestObjectsAreNeverListed(t *testing.T) {
	f := setUp(t)
	var mu sync.Mutex
	var requests []string
	watched := rest.CopyConfig(f.Config)
	watched.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, request.Method+" "+request.URL.Path)
			return next.RoundTrip(request)
		})
	})
	f.expect(watched, f.options())
	const most = 100 // about 60, most of them access reviews
	f.Expect(len(requests)).To(BeNumerically("<", most))
	for _, request := range requests {
		f.Expect(request).NotTo(Or(HaveSuffix("/configmaps"), HaveSuffix("/secrets")), request)
		f.Expect(request).To(Or(HavePrefix("GET "), HaveSuffix("/subjectaccessreviews")), request)
	}
}

func TestUnknownRing(t *testing.T) {
	f := setUp(t)
	_, err := doctor.Run(t.Context(), f.Config, f.options(func(o *doctor.Options) { o.Rings = []string{"absent"} }))
	f.Expect(err).To(MatchError(And(ContainSubstring(`ring "absent" not found`), ContainSubstring(f.name))))
}

// TestUserWithoutPermissions cannot check anything.
func TestUserWithoutPermissions(t *testing.T) {
	f := setUp(t)
	_, err := doctor.Run(t.Context(), f.account(&rbacv1.ClusterRole{}), f.options())
	f.Expect(err).To(MatchError(And(ContainSubstring("nothing could be checked"), ContainSubstring("controllerrings"), ContainSubstring("--print-role"))))
}

// TestUserWithFewPermissions gets unknown for what cannot be read, and never ok.
func TestUserWithFewPermissions(t *testing.T) {
	f := setUp(t)
	role := doctor.Role()
	for _, rule := range role.Rules {
		without := role.DeepCopy()
		without.Rules = slices.DeleteFunc(without.Rules, func(other rbacv1.PolicyRule) bool { return other.Resources[0] == rule.Resources[0] })
		t.Run(rule.Resources[0], func(t *testing.T) {
			of := *f
			of.Rig, of.WithT, of.t = f.For(t), NewWithT(t), t
			report := of.expect(of.account(without), f.options(), doctor.NotReadable)
			f.Expect(f.encode(report)).To(ContainSubstring("forbidden"))
		})
	}
}
