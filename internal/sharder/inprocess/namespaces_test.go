package inprocess

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/fake"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestNamespacesAreWatchedOnlyForLabels spares the operator a permission while the selector needs names only.
func TestNamespacesAreWatchedOnlyForLabels(t *testing.T) {
	client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	byName, err := newNamespaces(shardingv1alpha1.DefaultNamespaceSelector(), client, func() {}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if byName.informer != nil || !byName.synced() {
		t.Error("namespaces are watched although only their names count")
	}
	for namespace, want := range map[string]bool{"default": true, "kube-system": false, "sharding-system": false} {
		if byName.selects(namespace) != want {
			t.Errorf("%s is selected: %t", namespace, !want)
		}
	}
	byLabel, err := newNamespaces(&metav1.LabelSelector{MatchLabels: map[string]string{"project": "true"}}, client, func() {}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if byLabel.informer == nil || byLabel.synced() {
		t.Error("namespaces are not watched although their labels count")
	}
	if byLabel.selects("default") {
		t.Error("a namespace that was not seen is selected")
	}
	if _, err := newNamespaces(&metav1.LabelSelector{MatchLabels: map[string]string{"not a label": ""}}, client, func() {}, func() {}); err == nil {
		t.Error("a wrong selector passes")
	}
}
