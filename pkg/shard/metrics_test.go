package shard

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// TestMetrics has a shard that owns two objects, of which one is drained.
func TestMetrics(t *testing.T) {
	s, err := New(&rest.Config{}, Options{Ring: "ring", Name: "a", Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	kind, cache, err := s.owned.Declare(corev1.SchemeGroupVersion.WithKind("ConfigMap"), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	handler := s.owned.Handler(kind, cache)
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
	two := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two", Labels: map[string]string{shardingv1alpha1.LabelDrain("ring"): "b"}}}
	for _, object := range []*corev1.ConfigMap{one, two} {
		handler.OnAdd(object, true)
	}
	registry := prometheus.NewRegistry()
	shards := &collector{shards: map[*Shard]bool{}}
	registry.MustRegister(shards)
	remove := shards.add(s)
	expect := func(owned, draining string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP ringmaster_shard_drains_outstanding Objects that this shard owns and that are being drained.
# TYPE ringmaster_shard_drains_outstanding gauge
ringmaster_shard_drains_outstanding{controllerring="ring",shard="a"} `+draining+`
# HELP ringmaster_shard_member Whether this process is a member of its ring right now.
# TYPE ringmaster_shard_member gauge
ringmaster_shard_member{controllerring="ring",shard="a"} 0
# HELP ringmaster_shard_owned_objects Main objects that this shard owns, by kind.
# TYPE ringmaster_shard_owned_objects gauge
ringmaster_shard_owned_objects{controllerring="ring",group="",kind="ConfigMap",shard="a"} `+owned+`
`), "ringmaster_shard_drains_outstanding", "ringmaster_shard_member", "ringmaster_shard_owned_objects"); err != nil {
			t.Error(err)
		}
	}
	expect("2", "1")
	handler.OnDelete(two)
	expect("1", "0")
	remove()
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d metrics of a shard that has ended, %v", n, err)
	}
	s.observeRelease(ownership.Released, 0)
	if n := testutil.CollectAndCount(handovers, "ringmaster_shard_handover_duration_seconds"); n == 0 {
		t.Error("no handover was counted")
	}
}
