package shard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// TestWarnsWithoutLeaderElection adds an ordinary controller, which every shard would run without leader
// election.
func TestWarnsWithoutLeaderElection(t *testing.T) {
	f := setUp(t)
	elected := func(options *manager.Options) {
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, "leader", f.Namespace
	}
	for name, test := range map[string]struct {
		mode    shard.Mode
		manager func(*manager.Options)
		needs   *bool // leader election
		want    bool
	}{
		"no leader election":                      {shard.ModeShard, nil, nil, true},
		"leader election":                         {shard.ModeShard, elected, nil, false},
		"it is meant to run everywhere":           {shard.ModeShard, nil, new(false), false},
		"the in-process sharder has an election":  {shard.ModeInProcess, nil, nil, false},
		"a mode in which no kind is sharded":      {shard.ModeAlone, nil, nil, false},
		"leader election in a mode that leads":    {shard.ModeLead, nil, nil, false},
		"no leader election, but said explicitly": {shard.ModeShard, nil, new(true), true},
	} {
		var mu sync.Mutex
		var lines []string
		mgr := f.manager(test.mode, func(options *manager.Options) {
			options.LeaderElectionNamespace = f.Namespace
			options.Logger = funcr.New(func(_, line string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, line)
			}, funcr.Options{})
			if test.manager != nil {
				test.manager(options)
			}
		})
		f.Expect(ctrl.NewControllerManagedBy(mgr).Named("ordinary").For(&corev1.ServiceAccount{}).
			WithOptions(controller.Options{NeedLeaderElection: test.needs}).Complete(nothing)).To(Succeed(), name)
		mu.Lock()
		warned := strings.Contains(strings.Join(lines, "\n"), "will run in every shard at the same time")
		mu.Unlock()
		f.Expect(warned).To(Equal(test.want), name)
	}
}

// TestWarnsWithoutShardedChildren has a sharded controller with Owns without Sharded.
func TestWarnsWithoutShardedChildren(t *testing.T) {
	f := setUp(t)
	for name, test := range map[string]struct {
		mode  shard.Mode
		build func(*shard.Builder) *shard.Builder
		want  string
	}{
		"a shard": {shard.ModeShard, func(b *shard.Builder) *shard.Builder {
			return b.For(&corev1.ConfigMap{}, shard.Sharded{}).Owns(&corev1.Secret{})
		}, `"kind"="Secret"`},
		"only metadata": {shard.ModeInProcess, func(b *shard.Builder) *shard.Builder {
			return b.For(&corev1.ConfigMap{}, shard.Sharded{}).Owns(&corev1.Secret{}, builder.OnlyMetadata)
		}, `"kind"="Secret"`},
		"one of two kinds": {shard.ModeShard, func(b *shard.Builder) *shard.Builder {
			return b.For(&corev1.ConfigMap{}, shard.Sharded{}).Owns(&corev1.Secret{}, shard.Sharded{}).Owns(&corev1.Service{})
		}, `"kind"="Service"`},
		"sharded children": {shard.ModeShard, func(b *shard.Builder) *shard.Builder {
			return b.For(&corev1.ConfigMap{}, shard.Sharded{}).Owns(&corev1.Secret{}, shard.Sharded{})
		}, ""},
		"Watches, whose objects need not be children": {shard.ModeShard, func(b *shard.Builder) *shard.Builder {
			return b.For(&corev1.ConfigMap{}, shard.Sharded{}).Watches(&corev1.Secret{}, enqueueNothing())
		}, ""},
		"an ordinary controller": {shard.ModeInProcess, func(b *shard.Builder) *shard.Builder {
			return b.For(&corev1.ConfigMap{}).Owns(&corev1.Secret{})
		}, ""},
		"a mode in which no kind is sharded": {shard.ModeLead, func(b *shard.Builder) *shard.Builder {
			return b.For(&corev1.ConfigMap{}, shard.Sharded{}).Owns(&corev1.Secret{})
		}, ""},
	} {
		var mu sync.Mutex
		var warned []string
		mgr := f.manager(test.mode, func(options *manager.Options) {
			options.Logger = funcr.New(func(_, line string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(line, "Owns has no shard.Sharded{}") {
					warned = append(warned, line)
				}
			}, funcr.Options{})
		})
		f.Expect(test.build(shard.ControllerManagedBy(mgr).Named("owner")).Complete(nothing)).To(Succeed(), name)
		mu.Lock()
		if test.want == "" {
			f.Expect(warned).To(BeEmpty(), name)
		} else {
			f.Expect(warned).To(ConsistOf(And(ContainSubstring(test.want), ContainSubstring(`"controller"="owner"`))), name)
		}
		mu.Unlock()
	}
}

// TestUnshardedKeepsClientOptions has options with visible effects on the client.
func TestUnshardedKeepsClientOptions(t *testing.T) {
	f := setUp(t)
	mgr := f.manager(shard.ModeShard, func(options *manager.Options) {
		options.Client = client.Options{
			DryRun: new(true),
			Cache:  &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}},
		}
	})
	all, err := mgr.Unsharded()
	f.Expect(err).NotTo(HaveOccurred())

	t.Log("The kind that the options exclude is not read from the cache, which has not started")
	existing := f.plain("existing")
	f.Expect(all.GetClient().Get(t.Context(), client.ObjectKeyFromObject(existing), &corev1.ConfigMap{})).To(Succeed())
	started := &cache.ErrCacheNotStarted{}
	f.Expect(errors.As(all.GetClient().Get(t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: "none"}, &corev1.Secret{}), &started)).
		To(BeTrue(), "other kinds are")

	t.Log("Writes are dry runs")
	created := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "created"}}
	f.Expect(all.GetClient().Create(t.Context(), created)).To(Succeed())
	f.Expect(apierrors.IsNotFound(f.Client.Get(context.Background(), client.ObjectKeyFromObject(created), created))).To(BeTrue())
}
