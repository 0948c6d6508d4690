package ownership

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

func TestReleaseHandsChildrenOverFirst(t *testing.T) {
	o := newTestShard(t)
	var order []string
	o.beforePatch = func(name string) error {
		order = append(order, name)
		return nil
	}
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("the owners of the object and its child are %s, want bb", got)
	}
	if strings.Join(order, " ") != "child home" {
		t.Errorf("the order of the writes is %v", order)
	}
	if o.canReconcile() {
		t.Error("a reconcile begins on a released object")
	}
}

// TestObjectIsReconciledAfterRefusedRelease refuses the write of the object itself. Its child is assigned
// to the shard again, and the object is reconciled although it is being drained.
func TestObjectIsReconciledAfterRefusedRelease(t *testing.T) {
	o := newTestShard(t)
	o.beforePatch = onlyMain(forbidden)
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errRefused) {
		t.Fatalf("got %v", err)
	}
	if got := o.owners(); got != "aa" {
		t.Errorf("the owners of the object and its child are %s, want aa", got)
	}
	if !o.canReconcile() {
		t.Error("the object is not reconciled")
	}
	o.beforePatch = succeed
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("without the policy, the owners of the object and its child are %s, want bb", got)
	}
	if o.canReconcile() {
		t.Error("a reconcile begins on a released object")
	}
}

// TestLostResponseIsARelease applies the write and loses its response. No reconcile may begin, although the
// cache still shows the object.
func TestLostResponseIsARelease(t *testing.T) {
	o := newTestShard(t)
	before, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
	if err != nil {
		t.Fatal(err)
	}
	o.cachedMain = before
	o.afterPatch = onlyMain(func(string) error { return errReset })
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("the owners of the object and its child are %s, want bb", got)
	}
	if o.canReconcile() {
		t.Error("a reconcile begins on an object that another shard owns")
	}
}

// TestUnansweredReleaseStaysBlocked loses the write of a release. No reconcile may begin until that write
// can no longer be applied, because the object has changed or the API server's timeout has passed.
func TestUnansweredReleaseStaysBlocked(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*testShard)
		open bool
	}{
		"immediately":         {func(*testShard) {}, false},
		"before the timeout":  {func(*testShard) { time.Sleep(unansweredTimeout / 2) }, false},
		"after the timeout":   {func(*testShard) { time.Sleep(unansweredTimeout + time.Second) }, true},
		"after another write": {func(o *testShard) { o.touch() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newTestShard(t)
				o.beforePatch = onlyMain(func(string) error { return errReset })
				if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errUnanswered) {
					t.Fatalf("got %v", err)
				}
				test.then(o)
				o.beforePatch = onlyMain(forbidden) // the next attempt is refused, the first may still be in flight
				_ = o.Release(t.Context(), object, o.drainTarget)
				if got := o.canReconcile(); got != test.open {
					t.Errorf("a reconcile may begin: %t, want %t", got, test.open)
				}
			})
		})
	}
}

// TestFailedRetryDoesNotUnblockUnansweredRelease applies a release, and loses its response and the read after
// it. The next attempt fails, but the object stays blocked.
func TestFailedRetryDoesNotUnblockUnansweredRelease(t *testing.T) {
	for name, second := range map[string]func(*testShard){
		"no destination": func(o *testShard) { o.peers = nil },
		"refused":        func(o *testShard) { o.beforePatch = onlyMain(forbidden) },
		"not found": func(o *testShard) {
			o.beforePatch = onlyMain(func(name string) error {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "references"}, name)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestShard(t)
			before, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
			if err != nil {
				t.Fatal(err)
			}
			o.cachedMain = before // the cache lags
			reads := 0
			o.beforeRead = func() error {
				if reads++; reads == 1 {
					return errReset
				}
				return nil
			}
			o.afterPatch = onlyMain(func(string) error { return errReset })
			if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errUnanswered) {
				t.Fatalf("got %v", err)
			}
			second(o)
			if _, err := o.release(t.Context(), object, o.drainTarget); errors.Is(err, errRefused) {
				t.Errorf("got %v", err)
			}
			if got := o.owners(); got != "bb" {
				t.Errorf("the owners of the object and its child are %s, want bb", got)
			}
			if o.canReconcile() {
				t.Error("a reconcile begins on an object that another shard owns")
			}
		})
	}
}

// TestNotFoundFromWebhookIsARefusal has a webhook refuse the write because it did not find another object.
func TestNotFoundFromWebhookIsARefusal(t *testing.T) {
	o := newTestShard(t)
	o.beforePatch = onlyMain(func(name string) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "references"}, name)
	})
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if got := o.owners(); got != "aa" || !o.canReconcile() {
		t.Errorf("the owners of the object and its child are %s, want aa, or the object is not reconciled", got)
	}
}

// TestRefusedReleaseIsRetriedWithBackoff updates a drained object often. Not every update causes a retry.
func TestRefusedReleaseIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestShard(t)
		writes := 0
		o.beforePatch = onlyMain(func(name string) error {
			writes++
			return forbidden(name)
		})
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { o.Run(ctx) })
		handler := o.Handler(o.kind, 0)
		drained, err := o.Get(ctx, o.kind, 0, object.NamespacedName)
		if err != nil {
			t.Fatal(err)
		}
		for range 600 {
			handler.OnUpdate(drained, drained)
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		group.Wait()
		if writes < 5 || writes > 20 {
			t.Errorf("%d attempts in a minute, want about 12: 20 ms doubled up to 30 s", writes)
		}
	})
}

// TestHandoverWaitsBeforeRetry has a webhook assign each released object to this shard again.
func TestHandoverWaitsBeforeRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestShard(t)
		o.peers = []string{"a"} // as if the sharder had not observed yet that the shard is leaving
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		released, complete := o.ReleaseAll(ctx)
		if released != 0 || complete {
			t.Errorf("%d objects were released, complete: %t", released, complete)
		}
		if n := len(o.results); n > 60 {
			t.Errorf("%d attempts in 10 s", n)
		}
	})
}

// touch changes the main object as another client.
func (o *testShard) touch() {
	o.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"touched":"true"}}`))
	if err := o.api.Patch(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home"}}, patch); err != nil {
		o.t.Fatal(err)
	}
}

// TestReleaseWaitsForReconcile has a reconcile continue for a while after its context has ended.
func TestReleaseWaitsForReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestShard(t)
		reconcileCtx, leave, _ := o.gate.enter(t.Context(), object)
		var group sync.WaitGroup
		group.Go(func() {
			if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(o.GracePeriod / 2)
		if reconcileCtx.Err() != nil {
			t.Error("the reconcile is interrupted before the grace period is over")
		}
		time.Sleep(o.GracePeriod)
		if !errors.Is(context.Cause(reconcileCtx), ErrOwnershipLost) {
			t.Errorf("the reconcile is not interrupted after the grace period: %v", context.Cause(reconcileCtx))
		}
		if got := o.owners(); got != "aa" {
			t.Errorf("during a reconcile the owners of the object and its child are %s, want aa", got)
		}
		leave()
		group.Wait()
		if got := o.owners(); got != "bb" {
			t.Errorf("the owners of the object and its child are %s, want bb", got)
		}
	})
}

// TestOutdatedObjectIsNotReassigned has a cache show the object as it was before another client moved it.
func TestOutdatedObjectIsNotReassigned(t *testing.T) {
	o := newTestShard(t)
	before, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
	if err != nil {
		t.Fatal(err)
	}
	o.cachedMain = before
	if err := o.api.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home"}}, assignTo("c")); err != nil {
		t.Fatal(err)
	}
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners()[:1]; got != "c" {
		t.Errorf("the owner of the object is %s, want c", got)
	}
}

// TestHangingReconcilesDoNotDelayReleases has more reconciles ignore their contexts than there may be
// concurrent releases.
func TestHangingReconcilesDoNotDelayReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestShard(t)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for _, name := range []string{"one", "two", "three"} {
			k := Key{object.Kind, types.NamespacedName{Namespace: "default", Name: name}}
			_, leave, _ := o.gate.enter(t.Context(), k)
			t.Cleanup(leave)
			group.Go(func() { _ = o.Release(ctx, k, o.drainTarget) })
		}
		time.Sleep(time.Minute)
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := o.Release(bounded, object, o.drainTarget); err != nil {
			t.Errorf("the object is not released: %v", err)
		}
		if got := o.owners(); got != "bb" {
			t.Errorf("the owners of the object and its child are %s, want bb", got)
		}
		stop()
		group.Wait()
	})
}

func TestReleaseAll(t *testing.T) {
	for name, test := range map[string]struct {
		peers    []string
		released int
		complete bool
		owners   string
	}{
		"a peer":                {[]string{"b"}, 1, true, "bb"},
		"not all peers visible": {[]string{""}, 1, true, "a"}, // the object is unassigned, and the sharder moves its child
		"no peer":               {nil, 0, false, "aa"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestShard(t)
			o.peers = test.peers
			released, complete := o.ReleaseAll(t.Context())
			if released != test.released || complete != test.complete || o.owners() != test.owners {
				t.Errorf("got %d %t %q, want %d %t %q", released, complete, o.owners(), test.released, test.complete, test.owners)
			}
		})
	}
}

// TestWriteErrors classifies errors of writes as refusals, other responses, or no response.
func TestWriteErrors(t *testing.T) {
	status := func(code int32, causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Details: &metav1.StatusDetails{Causes: causes}}}
	}
	internal := func(causes ...metav1.StatusCause) error {
		failed := apierrors.NewInternalError(errors.New("failed calling webhook"))
		failed.ErrStatus.Details.Causes = append(failed.ErrStatus.Details.Causes, causes...)
		return failed
	}
	for name, test := range map[string]struct {
		err             error
		refused, answer bool
	}{
		"forbidden":          {status(http.StatusForbidden), true, true},
		"invalid":            {status(http.StatusUnprocessableEntity), true, true},
		"too many requests":  {status(http.StatusTooManyRequests), true, true},
		"internal error":     {internal(), false, true},
		"error from etcd":    {status(http.StatusInternalServerError), false, false},
		"conflict":           {apierrors.NewConflict(schema.GroupResource{}, "home", errReset), false, true},
		"not found":          {apierrors.NewNotFound(schema.GroupResource{}, "home"), false, true},
		"timeout":            {status(http.StatusGatewayTimeout), false, false},
		"request timeout":    {status(http.StatusRequestTimeout), false, false},
		"error from a proxy": {internal(metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse}), false, false},
		"connection reset":   {errReset, false, false},
	} {
		if isRefusal(test.err) != test.refused || isAnswer(test.err) != test.answer {
			t.Errorf("%s: refusal %t, answer %t", name, isRefusal(test.err), isAnswer(test.err))
		}
	}
}

// TestGateStaysBlockedUntilAllCachesShowRelease has a kind with two caches.
func TestGateStaysBlockedUntilAllCachesShowRelease(t *testing.T) {
	g := newGate()
	g.block(object)
	g.markReleased(object, "10", 2)
	g.endRelease(object)
	g.observeDeletion(object, "10", 1)
	if canEnter(g) {
		t.Error("a reconcile begins although the first cache still shows the object")
	}
	g.observeDeletion(object, "10", 0)
	if !canEnter(g) {
		t.Error("it stays blocked")
	}
}

// TestReleaseWaitsUntilCachesAgree has a second cache that does not show the object yet. It could otherwise
// show the object after the release.
func TestReleaseWaitsUntilCachesAgree(t *testing.T) {
	o := newTestShard(t)
	if _, _, err := o.Declare(configMaps, &metav1.PartialObjectMetadata{}); err != nil {
		t.Fatal(err)
	}
	o.laggingCache = 1
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errCachesDiffer) {
		t.Errorf("got %v", err)
	}
	if got := o.owners(); got != "aa" {
		t.Errorf("the owners of the object and its child are %s, want aa", got)
	}
	o.laggingCache = 0
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Error(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("the owners of the object and its child are %s, want bb", got)
	}
}

// TestKeptObjectKeepsItsChildren has a webhook assign the object to this shard again, in the write that
// releases it.
func TestKeptObjectKeepsItsChildren(t *testing.T) {
	o := newTestShard(t)
	o.webhookKeeps = true
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "aa" {
		t.Errorf("the owners of the object and its child are %s, want aa", got)
	}
}

// TestForeignObjectInCacheIsNotReconciled has a cache ignore the label selector.
func TestForeignObjectInCacheIsNotReconciled(t *testing.T) {
	o := newTestShard(t)
	o.cachedMain = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home", Labels: map[string]string{shardLabel: "b"}}}
	if _, _, state, err := o.Begin(t.Context(), o.kind, 0, object.NamespacedName); err == nil || state != NotOwned {
		t.Errorf("got state %v and error %v, want an error", state, err)
	}
}
