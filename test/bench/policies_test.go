package bench

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/policies"
	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// BenchmarkPolicies compares the time of requests with and without all policies of a ring, alternately: creates and
// updates by a user, and updates by the owner, for which the API server evaluates the fence.
func BenchmarkPolicies(b *testing.B) {
	const turns, each = 8, 150
	for b.Loop() {
		f := withoutRing(b)
		ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: ringName}, Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: []shardingv1alpha1.RingResource{{
				GroupResource:       shardingv1alpha1.GroupResource{Resource: mains.Resource},
				ControlledResources: []shardingv1alpha1.GroupResource{{Resource: children.Resource}},
			}},
			Shards: &shardingv1alpha1.RingShards{ServiceAccounts: []shardingv1alpha1.ServiceAccount{{Namespace: f.Namespace, Name: "operator"}}},
		}}
		objects, err := policies.ForRing(ring, policies.Options{Sharder: types.NamespacedName{Namespace: f.Namespace, Name: "sharder"}})
		f.Expect(err).NotTo(HaveOccurred())
		var bindings []client.Object
		for i, object := range objects {
			if i%2 == 0 {
				f.Expect(f.Client.Create(b.Context(), object.(client.Object))).To(Succeed())
			} else {
				bindings = append(bindings, object.(client.Object))
			}
		}
		owner := f.owner()
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: "owned", Labels: map[string]string{shardingv1alpha1.LabelShard(ringName): "pod-a"},
		}}
		f.Expect(f.Client.Create(b.Context(), owned)).To(Succeed())
		foreign := owned.DeepCopy()
		foreign.ObjectMeta = metav1.ObjectMeta{Namespace: f.Namespace, Name: "foreign", Labels: map[string]string{shardingv1alpha1.LabelShard(ringName): "pod-b"}}
		f.Expect(f.Client.Create(b.Context(), foreign)).To(Succeed())

		took := map[bool]map[string][]time.Duration{true: {}, false: {}}
		for turn := range 2 * turns {
			with := turn%2 == 0
			f.bind(bindings, with)
			f.Eventually(func() bool { return apierrors.IsForbidden(owner.Patch(b.Context(), foreign, written())) }).Should(Equal(with))
			took[with]["create"] = append(took[with]["create"], f.timedCreates(f.Namespace, each)...)
			took[with]["update by a user"] = append(took[with]["update by a user"], f.timedPatches(f.Client, owned, each)...)
			took[with]["update by the owner"] = append(took[with]["update by the owner"], f.timedPatches(owner, owned, each)...)
		}
		for request, unit := range map[string]string{"create": "x-create", "update by a user": "x-user-update", "update by the owner": "x-owner-update"} {
			f.figure(request+" with all policies of a ring / without them, p50",
				stats.Quantile(took[true][request], 0.5).Seconds()/stats.Quantile(took[false][request], 0.5).Seconds(), unit, "at most 1.1")
		}
	}
}

// owner returns a client of the shard pod-a.
func (f *fixture) owner() client.Client {
	f.b.Helper()
	ctx := f.b.Context()
	f.Expect(f.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "operator"}})).To(Succeed())
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}}},
	}
	f.Expect(f.Client.Create(ctx, role)).To(Succeed())
	f.Expect(f.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.Namespace, Name: "operator"}},
	})).To(Succeed())
	config, err := f.PodRESTConfig(ctx, f.Namespace, "operator", "pod-a")
	f.Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	owner, err := client.New(config, client.Options{Scheme: f.Client.Scheme(), Mapper: f.Client.RESTMapper()})
	f.Expect(err).NotTo(HaveOccurred())
	return owner
}

// bind creates the bindings of policies, or deletes them.
func (f *fixture) bind(bindings []client.Object, bound bool) {
	f.b.Helper()
	for _, binding := range bindings {
		if bound {
			f.Expect(f.Client.Create(context.Background(), binding.DeepCopyObject().(client.Object))).To(Succeed())
		} else {
			f.Expect(client.IgnoreNotFound(f.Client.Delete(context.Background(), binding.DeepCopyObject().(client.Object)))).To(Succeed())
		}
	}
}

// written returns a patch that changes an object each time.
func written() client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"data":{"written":"`+time.Now().Format(time.RFC3339Nano)+`"}}`))
}

// timedPatches patches an object n times, and returns the duration of each.
func (f *fixture) timedPatches(as client.Client, object client.Object, n int) []time.Duration {
	f.b.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		f.Expect(as.Patch(context.Background(), object.DeepCopyObject().(client.Object), written())).To(Succeed())
		took[i] = time.Since(began)
	}
	return took
}
