package shard

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// in are the cache options of namespaces.
func in(namespaces ...string) map[string]cache.Config {
	configs := map[string]cache.Config{}
	for _, namespace := range namespaces {
		configs[namespace] = cache.Config{}
	}
	return configs
}

func ofConfigMaps(config cache.ByObject) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.ConfigMap{}: config, &corev1.Secret{}: {Namespaces: in("other")}}
}

// TestCachedNamespaces compares the result with that of controller-runtime for the same options.
func TestCachedNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		options cache.Options
		scope   meta.RESTScope
		want    []string
	}{
		"no options":                             {cache.Options{}, meta.RESTScopeNamespace, []string{""}},
		"default":                                {cache.Options{DefaultNamespaces: in("b", "a")}, meta.RESTScopeNamespace, []string{"a", "b"}},
		"a kind with others":                     {cache.Options{DefaultNamespaces: in("a", "b"), ByObject: ofConfigMaps(cache.ByObject{Namespaces: in("a")})}, meta.RESTScopeNamespace, []string{"a"}},
		"a kind without":                         {cache.Options{DefaultNamespaces: in("a", "b"), ByObject: ofConfigMaps(cache.ByObject{})}, meta.RESTScopeNamespace, []string{"a", "b"}},
		"a kind with an empty map":               {cache.Options{DefaultNamespaces: in("a", "b"), ByObject: ofConfigMaps(cache.ByObject{Namespaces: in()})}, meta.RESTScopeNamespace, []string{""}},
		"all, some with other options":           {cache.Options{DefaultNamespaces: in(cache.AllNamespaces, "kube-system")}, meta.RESTScopeNamespace, []string{""}},
		"a kind in all, some with other options": {cache.Options{DefaultNamespaces: in("a"), ByObject: ofConfigMaps(cache.ByObject{Namespaces: in(cache.AllNamespaces, "b")})}, meta.RESTScopeNamespace, []string{""}},
		"cluster-scoped":                         {cache.Options{DefaultNamespaces: in("a")}, meta.RESTScopeRoot, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &splitCache{scheme: scheme.Scheme, options: test.options}
			if got := c.namespacesOf(&corev1.ConfigMap{}, test.scope); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestSharderSelectsCachedNamespacesOnly has an in-process sharder that would assign objects outside of the caches.
func TestSharderSelectsCachedNamespacesOnly(t *testing.T) {
	named := func(operator metav1.LabelSelectorOperator, names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: operator, Values: names}}}
	}
	const selectedIn, notIn = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn
	both := named(selectedIn, "a", "b")
	both.MatchExpressions = append(both.MatchExpressions, named(notIn, "b").MatchExpressions...)
	onlyA := ofConfigMaps(cache.ByObject{Namespaces: in("a")})
	for name, test := range map[string]struct {
		mode     Mode
		cache    cache.Options
		selector *metav1.LabelSelector
		want     string // the namespaces that are missing, or "" if the check succeeds
	}{
		"all namespaces":                   {ModeInProcess, cache.Options{}, nil, ""},
		"all, some with other options":     {ModeInProcess, cache.Options{DefaultNamespaces: in("", "kube-system")}, nil, ""},
		"the default namespaces":           {ModeInProcess, cache.Options{DefaultNamespaces: in("a", "b")}, nil, ""},
		"a kind in some of them":           {ModeInProcess, cache.Options{DefaultNamespaces: in("a", "b"), ByObject: onlyA}, nil, "in b:"},
		"a kind in all":                    {ModeInProcess, cache.Options{DefaultNamespaces: in("a", "b"), ByObject: ofConfigMaps(cache.ByObject{Namespaces: in()})}, nil, ""},
		"only a kind is restricted":        {ModeInProcess, cache.Options{ByObject: onlyA}, nil, "in other namespaces:"},
		"the same for a mere sharder":      {ModeSharder, cache.Options{ByObject: onlyA}, nil, "in other namespaces:"},
		"names, all cached":                {ModeInProcess, cache.Options{DefaultNamespaces: in("a", "b")}, named(selectedIn, "b"), ""},
		"names, some not cached":           {ModeInProcess, cache.Options{DefaultNamespaces: in("a")}, named(selectedIn, "c", "a", "b"), "in b, c:"},
		"names, one of them excluded":      {ModeInProcess, cache.Options{DefaultNamespaces: in("a")}, both, ""},
		"all names but one":                {ModeInProcess, cache.Options{DefaultNamespaces: in("a")}, named(notIn, "b"), "in other namespaces:"},
		"an empty selector":                {ModeInProcess, cache.Options{DefaultNamespaces: in("a")}, &metav1.LabelSelector{}, "in other namespaces:"},
		"labels are not known":             {ModeInProcess, cache.Options{DefaultNamespaces: in("a")}, &metav1.LabelSelector{MatchLabels: map[string]string{"project": "x"}}, ""},
		"an external sharder is not known": {ModeShard, cache.Options{ByObject: onlyA}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Shard{
				options: Options{Mode: test.mode, NamespaceSelector: test.selector},
				owned:   ownership.New(ownership.Options{Ring: "ring", Shard: "a", ConcurrentReleases: 1}),
				cache:   &splitCache{scheme: scheme.Scheme, options: test.cache, sharded: map[schema.GroupKind]bool{}},
				mapper:  configMapsMapper(),
			}
			if _, _, err := s.declare(&corev1.ConfigMap{}); err != nil {
				t.Fatal(err)
			}
			s.selectCachedNamespaces(test.cache)
			err := s.checkNamespaces(t.Context())
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func configMapsMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return mapper
}

// hangingMapper is a RESTMapper whose discovery gets no response.
type hangingMapper struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper.
func (hangingMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	select {}
}

// TestHungDiscoveryDoesNotDelayStop stops a process whose checks wait for discovery.
func TestHungDiscoveryDoesNotDelayStop(t *testing.T) {
	s := &Shard{
		options: Options{Mode: ModeInProcess},
		owned:   ownership.New(ownership.Options{Ring: "ring", Shard: "a", ConcurrentReleases: 1}),
		cache:   &splitCache{scheme: scheme.Scheme, sharded: map[schema.GroupKind]bool{}},
		mapper:  hangingMapper{},
	}
	if _, _, err := s.declare(&corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&Manager{shard: s}).start(ctx) }()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the process does not stop")
	}
}
