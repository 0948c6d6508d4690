package ownership

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secrets    = corev1.SchemeGroupVersion.WithKind("Secret")
	shardLabel = shardingv1alpha1.LabelShard("ring")
	drainLabel = shardingv1alpha1.LabelDrain("ring")
)

// testShard is a shard named a. Its caches show the objects of a fake API server, unless a test changes
// that.
type testShard struct {
	*Ownership
	t    *testing.T
	api  client.WithWatch
	kind *Kind
	// cachedMain is the main object that the caches show instead of the API server's, or nil.
	cachedMain   client.Object
	laggingCache int   // the index of a cache that does not show the main object yet, or 0
	cacheErr     error // returned by reads of the caches
	webhookKeeps bool  // a webhook assigns the main object to this shard again, in the same write

	mu          sync.Mutex
	beforePatch func(name string) error // an error means that the patch is not applied
	afterPatch  func(name string) error // an error replaces the response to an applied patch
	beforeRead  func() error            // an error means that a read without a cache fails
	results     []Result
	peers       []string
}

func newTestShard(t *testing.T) *testShard {
	t.Helper()
	o := &testShard{t: t, peers: []string{"b"}, beforePatch: succeed, afterPatch: succeed, beforeRead: func() error { return nil }}
	main := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "home", UID: "main", Labels: map[string]string{shardLabel: "a", drainLabel: "b"},
	}}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "child", UID: "child", Labels: map[string]string{shardLabel: "a"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "home", UID: "main", Controller: new(true)}},
	}}
	o.api = fake.NewClientBuilder().WithObjects(main, child).Build()
	o.Ownership = New(Options{
		Ring: "ring", Shard: "a", Objects: o, Peers: o, GracePeriod: time.Second, ConcurrentReleases: 2,
		ObserveRelease: func(result Result, _ time.Duration) { o.results = append(o.results, result) },
	})
	t.Cleanup(o.queue.ShutDown)
	var err error
	if o.kind, _, err = o.Declare(configMaps, &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	o.DeclareControlled(o.kind, secrets, &corev1.Secret{})
	o.SetWriter(interceptor.NewClient(o.api, interceptor.Funcs{Get: func(
		ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
	) error {
		if err := o.beforeRead(); err != nil {
			return err
		}
		return api.Get(ctx, key, object, options...)
	}, Patch: func(
		ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		o.mu.Lock()
		before, after := o.beforePatch, o.afterPatch
		o.mu.Unlock()
		if err := before(object.GetName()); err != nil {
			return err
		}
		if err := api.Patch(ctx, object, patch, options...); err != nil {
			return err
		}
		if o.webhookKeeps && object.GetName() == "home" {
			if err := api.Patch(ctx, object, assignTo("a")); err != nil {
				return err
			}
		}
		return after(object.GetName())
	}}))
	return o
}

// Get implements Objects.
func (o *testShard) Get(ctx context.Context, _ *Kind, cache int, name types.NamespacedName) (client.Object, error) {
	o.mu.Lock()
	lagging, cacheErr := o.laggingCache, o.cacheErr
	o.mu.Unlock()
	if cacheErr != nil {
		return nil, cacheErr
	}
	if lagging > 0 && cache == lagging {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name.Name)
	}
	if o.cachedMain != nil {
		return o.cachedMain, nil
	}
	object := &corev1.ConfigMap{}
	if err := o.api.Get(ctx, name, object); err != nil {
		return nil, err
	}
	if object.Labels[shardLabel] != "a" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name.Name)
	}
	return object, nil
}

// ForEach implements Objects.
func (o *testShard) ForEach(ctx context.Context, kind *Kind, _ types.UID, visit func(client.Object) error) error {
	if kind.Kind == "ConfigMap" {
		object, err := o.Get(ctx, kind, 0, object.NamespacedName)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		return visit(object)
	}
	child := &corev1.Secret{}
	if err := o.api.Get(ctx, types.NamespacedName{Namespace: "default", Name: "child"}, child); err != nil {
		return client.IgnoreNotFound(err)
	}
	return visit(child)
}

// Contains implements Peers.
func (o *testShard) Contains(_ context.Context, shard string) bool {
	return strings.Join(o.peers, "") == shard
}

// Next implements Peers.
func (o *testShard) Next(context.Context, string) (string, bool, error) {
	if len(o.peers) == 0 {
		return "", false, nil
	}
	return o.peers[0], true, nil
}

// owners returns the recorded owners of the main object and its child.
func (o *testShard) owners() string {
	o.t.Helper()
	main, child := &corev1.ConfigMap{}, &corev1.Secret{}
	if err := o.api.Get(context.Background(), object.NamespacedName, main); err != nil {
		o.t.Fatal(err)
	}
	if err := o.api.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "child"}, child); err != nil {
		o.t.Fatal(err)
	}
	return main.Labels[shardLabel] + child.Labels[shardLabel]
}

// canReconcile reports whether a reconcile of the main object may begin.
func (o *testShard) canReconcile() bool { return o.Owns(o.t.Context(), o.kind, object.NamespacedName) }

func succeed(string) error { return nil }

func forbidden(string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "home", errors.New("refused by a policy"))
}

// assignTo returns a patch that records an owner.
func assignTo(shard string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+shardLabel+`":"`+shard+`"}}}`))
}

var errReset = errors.New("connection reset by peer")

// onlyMain calls a function only for the main object.
func onlyMain(fail func(string) error) func(string) error {
	return func(name string) error {
		if name != "home" {
			return nil
		}
		return fail(name)
	}
}

// touch changes the main object as another client.
func (o *testShard) touch() {
	o.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"touched":"true"}}`))
	if err := o.api.Patch(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home"}}, patch); err != nil {
		o.t.Fatal(err)
	}
}
