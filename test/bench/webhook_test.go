package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/stats"
)

const webhookGroup = "webhook.ringmaster.test"

// withoutRing returns a control plane without rings.
func withoutRing(b *testing.B) *fixture {
	b.Helper()
	f := &fixture{Rig: rig.Private(b, rig.Options{CRDs: []string{"config/crds"}}), WithT: NewWithT(b), b: b}
	f.SetDefaultEventuallyTimeout(timeout)
	f.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	return f
}

// define creates a kind Main<i> and a ring for it, with ConfigMaps as children.
func (f *fixture) define(i int) {
	f.b.Helper()
	kind, singular := fmt.Sprintf("Main%d", i), fmt.Sprintf("main%d", i)
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": singular + "s." + webhookGroup},
		"spec": map[string]any{
			"group": webhookGroup, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	f.Expect(f.Client.Create(f.b.Context(), definition)).To(Succeed())
	f.declare(singular, shardingv1alpha1.RingResource{
		GroupResource:       shardingv1alpha1.GroupResource{Group: webhookGroup, Resource: singular + "s"},
		ControlledResources: []shardingv1alpha1.GroupResource{{Resource: mains.Resource}},
	}, nil)
}

func (f *fixture) declare(name string, resource shardingv1alpha1.RingResource, selector *metav1.LabelSelector) {
	f.b.Helper()
	f.Expect(f.Client.Create(f.b.Context(), &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{resource}, NamespaceSelector: selector},
	})).To(Succeed())
}

// pauseSharder starts a sharder, waits until all rings have their webhooks, and pauses it.
func (f *fixture) pauseSharder(rings int) {
	f.b.Helper()
	sharder := f.StartSharder(f.b, rig.SharderOptions{Roles: []string{"test/bench/testdata/webhook-role.yaml"}, Shipped: true})
	f.Eventually(func() []admissionregistrationv1.MutatingWebhookConfiguration { return f.webhooks() }).Should(HaveLen(rings))
	time.Sleep(pause) // until the API server has observed them, and the rings have conditions
	f.Expect(sharder.Pause()).To(Succeed())
	f.b.Cleanup(func() { _ = sharder.Resume() })
}

func (f *fixture) webhooks() []admissionregistrationv1.MutatingWebhookConfiguration {
	list := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	f.Expect(f.Client.List(context.Background(), list)).To(Succeed())
	return list.Items
}

// timedCreates creates n ConfigMaps one after the other, and returns the duration of each.
func (f *fixture) timedCreates(namespace string, n int, owners ...metav1.OwnerReference) []time.Duration {
	f.b.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "created-", OwnerReferences: owners}}
		began := time.Now()
		f.Expect(f.Client.Create(context.Background(), object)).To(Succeed())
		took[i] = time.Since(began)
	}
	return took
}

// BenchmarkHungSharder compares the creation of ConfigMaps with and without the webhooks of 50 rings, alternately. Each ring has
// another main resource and ConfigMaps as children, and the sharder hangs.
func BenchmarkHungSharder(b *testing.B) {
	const rings, turns, each = 50, 6, 200
	for b.Loop() {
		f := withoutRing(b)
		for i := range rings {
			f.define(i)
		}
		f.pauseSharder(rings)
		owned := f.owned(0, rings)
		f.Expect(slices.Min(owned)).To(BeNumerically(">", 900*time.Millisecond), "every ring's webhook was called")
		var with, without []time.Duration
		for range turns {
			with = append(with, f.timedCreates(f.Namespace, each)...)
			f.withoutWebhooks(rings, func() { without = append(without, f.timedCreates(f.Namespace, each)...) })
		}
		b.Logf("unowned: p50 %s, p99 %s; without rings: p50 %s, p99 %s; owned: p50 %s, max %s", stats.Quantile(with, 0.5), stats.Quantile(with, 0.99),
			stats.Quantile(without, 0.5), stats.Quantile(without, 0.99), stats.Quantile(owned, 0.5), slices.Max(owned))
		f.figure(fmt.Sprintf("%d rings, hung sharder, unowned ConfigMap: time / time without rings", rings),
			stats.Quantile(with, 0.5).Seconds()/stats.Quantile(without, 0.5).Seconds(), "x-plain", "at most 1.2")
		f.figure(fmt.Sprintf("%d rings, hung sharder, owned ConfigMap, longest of %d", rings, len(owned)), slices.Max(owned).Seconds(), "s", "one timeout of 1")
	}
}

// owned creates a ConfigMap that an object of each kind controls.
func (f *fixture) owned(from, to int) (took []time.Duration) {
	f.b.Helper()
	yes := true
	for i := from; i < to; i++ {
		owner := metav1.OwnerReference{APIVersion: webhookGroup + "/v1", Kind: fmt.Sprintf("Main%d", i), Name: "owner", UID: "42", Controller: &yes}
		took = append(took, f.timedCreates(f.Namespace, 1, owner)...)
	}
	return took
}

// withoutWebhooks deletes the webhooks of all rings, calls do, and restores them. It waits until the API server has observed each.
func (f *fixture) withoutWebhooks(rings int, do func()) {
	f.b.Helper()
	installed := f.webhooks()
	for i := range installed {
		f.Expect(f.Client.Delete(context.Background(), &installed[i])).To(Succeed())
	}
	noticed := func() time.Duration { return slices.Max(f.owned(0, rings)) }
	f.Eventually(noticed).Should(BeNumerically("<", 500*time.Millisecond))
	do()
	for i := range installed {
		installed[i].ResourceVersion, installed[i].UID = "", ""
		f.Expect(f.Client.Create(context.Background(), &installed[i])).To(Succeed())
	}
	f.Eventually(func() time.Duration { return f.owned(rings-1, rings)[0] }).Should(BeNumerically(">", 900*time.Millisecond))
}

// BenchmarkRingsOnOneResource finds the number of rings with one main resource at which requests fail while their sharder hangs.
func BenchmarkRingsOnOneResource(b *testing.B) {
	const maxRings = 38
	for b.Loop() {
		f := withoutRing(b)
		for i := range maxRings {
			f.declare(fmt.Sprintf("ring-%d", i), shardingv1alpha1.RingResource{GroupResource: shardingv1alpha1.GroupResource{Resource: mains.Resource}},
				&metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprintf("ring-%d", i): "true"}})
		}
		f.pauseSharder(maxRings)
		took, failed := make([]time.Duration, maxRings+1), make([]error, maxRings+1)
		var group sync.WaitGroup
		for _, rings := range []int{1, 2, 4, 8, 16, 30, 31, 32, 33, 34, 35, 36, 37, 38} {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rings-%d", rings), Labels: map[string]string{}}}
			for i := range rings {
				namespace.Labels[fmt.Sprintf("ring-%d", i)] = "true"
			}
			f.Expect(f.Client.Create(b.Context(), namespace)).To(Succeed())
			group.Go(func() {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "created"}}
				began := time.Now()
				failed[rings] = f.Client.Create(context.Background(), object)
				took[rings] = time.Since(began)
			})
		}
		group.Wait()
		fewest := 0
		for rings := range took {
			if took[rings] == 0 {
				continue
			}
			b.Logf("%2d rings with one main resource: %6.2f s %v", rings, took[rings].Seconds(), failed[rings])
			if failed[rings] != nil {
				f.Expect(apierrors.IsTimeout(failed[rings])).To(BeTrue(), "%v", failed[rings])
				if fewest == 0 {
					fewest = rings
				}
			}
		}
		f.figure("rings with one main resource that fail a request, hung sharder", float64(fewest), "rings", "more than 30")
		f.figure("8 rings with one main resource, hung sharder, one request", took[8].Seconds(), "s", "8 timeouts of 1 [before: failed after 34]")
		f.warned(maxRings)
	}
}

// warned checks the conditions of the rings, which the sharder has written before it hung.
func (f *fixture) warned(rings int) {
	f.b.Helper()
	list := &shardingv1alpha1.ControllerRingList{}
	f.Expect(f.Client.List(context.Background(), list)).To(Succeed())
	warned := 0
	for i := range list.Items {
		if found := meta.FindStatusCondition(list.Items[i].Status.Conditions, shardingv1alpha1.ConditionExclusive); found != nil && found.Reason == shardingv1alpha1.ReasonTooManyRings {
			warned++
		}
	}
	f.Expect(warned).To(Equal(rings), "each ring reports that there are too many")
}
