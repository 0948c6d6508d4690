package shard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAddSelectorToAllOptions has all places at which a user's cache options can have a selector.
func TestAddSelectorToAllOptions(t *testing.T) {
	own := labels.SelectorFromSet(labels.Set{"shard": "a"})
	theirs := labels.SelectorFromSet(labels.Set{"app": "x"})
	both := "app=x,shard=a"
	options := cache.Options{
		DefaultLabelSelector: theirs,
		DefaultNamespaces:    map[string]cache.Config{"one": {LabelSelector: theirs}, "two": {}},
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:    {Label: theirs, Namespaces: map[string]cache.Config{"one": {LabelSelector: theirs}}},
			&corev1.ConfigMap{}: {},
		},
	}
	narrowed := addSelector(options, own)
	if got := narrowed.DefaultLabelSelector.String(); got != both {
		t.Errorf("by default %s", got)
	}
	if got := narrowed.DefaultNamespaces["one"].LabelSelector.String(); got != both {
		t.Errorf("in a namespace %s", got)
	}
	if narrowed.DefaultNamespaces["two"].LabelSelector != nil {
		t.Error("a namespace without a selector does not get the default one any more")
	}
	for object, config := range narrowed.ByObject {
		if _, secret := object.(*corev1.Secret); !secret {
			if config.Label != nil {
				t.Error("a kind without a selector does not get the default one any more")
			}
			continue
		}
		if got := config.Label.String(); got != both {
			t.Errorf("of a kind %s", got)
		}
		if got := config.Namespaces["one"].LabelSelector.String(); got != both {
			t.Errorf("of a kind in a namespace %s", got)
		}
	}
	if options.DefaultNamespaces["one"].LabelSelector.String() != "app=x" {
		t.Error("the user's options were changed")
	}
	if got := addSelector(cache.Options{}, own).DefaultLabelSelector.String(); got != "shard=a" {
		t.Errorf("without any options %s", got)
	}
}
