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

// owner is a shard named a, whose caches are the API server's own content unless a test freezes them.
type owner struct {
	*Ownership
	t      *testing.T
	api    client.WithWatch
	kind   *Kind
	frozen client.Object // what the cache shows of the main object, if that is not what the API server has
	behind int           // the index of a cache that does not show the main object yet, or 0
	fails  error         // what reads of the caches return
	keeps  bool          // a webhook assigns the main object to this shard again, in the same write

	mu      sync.Mutex
	patch   func(name string) error // what becomes of a patch before it is applied
	lost    func(name string) error // what becomes of the answer after it was applied
	reads   func() error            // what becomes of a read without a cache
	results []Result
	peers   []string
}

func newOwner(t *testing.T) *owner {
	t.Helper()
	o := &owner{t: t, peers: []string{"b"}, patch: func(string) error { return nil }, lost: func(string) error { return nil }, reads: func() error { return nil }}
	main := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "home", UID: "main", Labels: map[string]string{shardLabel: "a", drainLabel: "b"},
	}}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "child", UID: "child", Labels: map[string]string{shardLabel: "a"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "home", UID: "main", Controller: new(true)}},
	}}
	o.api = fake.NewClientBuilder().WithObjects(main, child).Build()
	o.Ownership = New(Options{
		Ring: "ring", Shard: "a", Objects: o, Peers: o, Grace: time.Second, ConcurrentReleases: 2,
		Observe: func(result Result, _ time.Duration) { o.results = append(o.results, result) },
	})
	t.Cleanup(o.queue.ShutDown)
	var err error
	if o.kind, _, err = o.Declare(configMaps, &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	o.DeclareControlled(o.kind, secrets, &corev1.Secret{})
	o.WriteWith(interceptor.NewClient(o.api, interceptor.Funcs{Get: func(
		ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
	) error {
		if err := o.reads(); err != nil {
			return err
		}
		return api.Get(ctx, key, object, options...)
	}, Patch: func(
		ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		o.mu.Lock()
		before, after := o.patch, o.lost
		o.mu.Unlock()
		if err := before(object.GetName()); err != nil {
			return err
		}
		if err := api.Patch(ctx, object, patch, options...); err != nil {
			return err
		}
		if o.keeps && object.GetName() == "home" {
			if err := api.Patch(ctx, object, assignTo("a")); err != nil {
				return err
			}
		}
		return after(object.GetName())
	}}))
	return o
}

// Get implements Objects.
func (o *owner) Get(ctx context.Context, _ *Kind, cache int, name types.NamespacedName) (client.Object, error) {
	o.mu.Lock()
	behind, fails := o.behind, o.fails
	o.mu.Unlock()
	if fails != nil {
		return nil, fails
	}
	if behind > 0 && cache == behind {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name.Name)
	}
	if o.frozen != nil {
		return o.frozen, nil
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

// Each implements Objects.
func (o *owner) Each(ctx context.Context, kind *Kind, _ types.UID, visit func(client.Object) error) error {
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
func (o *owner) Contains(_ context.Context, shard string) bool {
	return strings.Join(o.peers, "") == shard
}

// Next implements Peers.
func (o *owner) Next(context.Context, string) (string, bool, error) {
	if len(o.peers) == 0 {
		return "", false, nil
	}
	return o.peers[0], true, nil
}

// owners are the shards that the API server has recorded for the main object and its child.
func (o *owner) owners() string {
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

// begins reports whether a reconcile may begin.
func (o *owner) begins() bool { return o.Owns(o.t.Context(), o.kind, object.NamespacedName) }

func forbidden(string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "home", errors.New("refused by a policy"))
}

// assignTo is a patch that records an owner.
func assignTo(shard string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+shardLabel+`":"`+shard+`"}}}`))
}

var errReset = errors.New("connection reset by peer")

// onMain fails only for the main object.
func onMain(fail func(string) error) func(string) error {
	return func(name string) error {
		if name != "home" {
			return nil
		}
		return fail(name)
	}
}

func TestReleaseHandsChildrenOverFirst(t *testing.T) {
	o := newOwner(t)
	var order []string
	o.patch = func(name string) error {
		order = append(order, name)
		return nil
	}
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("the object and its child are with %s, want bb", got)
	}
	if strings.Join(order, " ") != "child home" {
		t.Errorf("writes were %v", order)
	}
	if o.begins() {
		t.Error("a reconcile begins on a released object")
	}
}

// TestRefusedReleaseKeepsObjectAtWork refuses the write of the object itself. Its child is assigned to the shard again, and the
// object is reconciled although it is being drained.
func TestRefusedReleaseKeepsObjectAtWork(t *testing.T) {
	o := newOwner(t)
	o.patch = onMain(forbidden)
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errRefused) {
		t.Fatalf("got %v", err)
	}
	if got := o.owners(); got != "aa" {
		t.Errorf("the object and its child are with %s, want aa", got)
	}
	if !o.begins() {
		t.Error("nobody works on the object")
	}
	o.patch = func(string) error { return nil }
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("after the policy is gone: %s, want bb", got)
	}
	if o.begins() {
		t.Error("a reconcile begins on a released object")
	}
}

// TestLostAnswerIsARelease applies the write and loses its answer. A cache that still shows the object must not let a
// reconcile begin.
func TestLostAnswerIsARelease(t *testing.T) {
	o := newOwner(t)
	before, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
	if err != nil {
		t.Fatal(err)
	}
	o.frozen = before
	o.lost = onMain(func(string) error { return errReset })
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("the object and its child are with %s, want bb", got)
	}
	if o.begins() {
		t.Error("two shards work on the object")
	}
}

// TestUnansweredReleaseStaysBlocked loses the write of a release. No reconcile begins until that write can no longer be applied,
// because the object has changed or the API server's timeout has passed.
func TestUnansweredReleaseStaysBlocked(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*owner)
		open bool
	}{
		"at once":             {func(*owner) {}, false},
		"after a while":       {func(*owner) { time.Sleep(unansweredTimeout / 2) }, false},
		"after the timeout":   {func(*owner) { time.Sleep(unansweredTimeout + time.Second) }, true},
		"after another write": {func(o *owner) { o.touch() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOwner(t)
				o.patch = onMain(func(string) error { return errReset })
				if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errUnanswered) {
					t.Fatalf("got %v", err)
				}
				test.then(o)
				o.patch = onMain(forbidden) // the next attempt is refused for certain, the first may still be under way
				_ = o.Release(t.Context(), object, o.drainTarget)
				if got := o.begins(); got != test.open {
					t.Errorf("a reconcile begins: %t, want %t", got, test.open)
				}
			})
		})
	}
}

// TestLeavingDoesNotReopenUnansweredRelease applies a release and loses its answer and the read after it. The next attempt
// knows no destination, which does not make the object this shard's again.
func TestLeavingDoesNotReopenUnansweredRelease(t *testing.T) {
	for name, second := range map[string]func(*owner){
		"no destination": func(o *owner) { o.peers = nil },
		"refused":        func(o *owner) { o.patch = onMain(forbidden) },
		"not found, it says": func(o *owner) {
			o.patch = onMain(func(name string) error {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "references"}, name)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwner(t)
			before, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
			if err != nil {
				t.Fatal(err)
			}
			o.frozen = before // the cache lags
			reads := 0
			o.reads = func() error {
				if reads++; reads == 1 {
					return errReset
				}
				return nil
			}
			o.lost = onMain(func(string) error { return errReset })
			if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errUnanswered) {
				t.Fatalf("got %v", err)
			}
			second(o)
			if _, err := o.release(t.Context(), object, o.drainTarget); errors.Is(err, errRefused) {
				t.Errorf("got %v", err)
			}
			if got := o.owners(); got != "bb" {
				t.Errorf("the object and its child are with %s, want bb", got)
			}
			if o.begins() {
				t.Error("two shards work on the object")
			}
		})
	}
}

// TestNotFoundOfAWebhookIsNoRelease has a webhook answer the write with the code of an object that it misses itself.
func TestNotFoundOfAWebhookIsNoRelease(t *testing.T) {
	o := newOwner(t)
	o.patch = onMain(func(name string) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "references"}, name)
	})
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if got := o.owners(); got != "aa" || !o.begins() {
		t.Errorf("the object and its child are with %s, and nobody works on them", got)
	}
}

// TestRefusedReleaseIsRetriedWithBackoff writes a drained object again and again. Its release is not tried each time.
func TestRefusedReleaseIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		writes := 0
		o.patch = onMain(func(name string) error {
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

// TestLeavingPausesWhenObjectComesBack has a webhook assign a released object to this shard again.
func TestLeavingPausesWhenObjectComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		o.peers = []string{"a"} // what the webhook of a sharder does that has not seen that the shard leaves
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

// touch is a write by another client.
func (o *owner) touch() {
	o.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"touched":"true"}}`))
	if err := o.api.Patch(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home"}}, patch); err != nil {
		o.t.Fatal(err)
	}
}

// TestReleaseWaitsForReconcile has a reconcile that goes on for a while after its context has ended.
func TestReleaseWaitsForReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
		running, leave, _ := o.gate.enter(t.Context(), object)
		var group sync.WaitGroup
		group.Go(func() {
			if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(o.Grace / 2)
		if running.Err() != nil {
			t.Error("the reconcile is interrupted before the grace period is over")
		}
		time.Sleep(o.Grace)
		if !errors.Is(context.Cause(running), ErrOwnershipLost) {
			t.Errorf("the reconcile is not interrupted after the grace period: %v", context.Cause(running))
		}
		if got := o.owners(); got != "aa" {
			t.Errorf("during a reconcile the object and its child are with %s, want aa", got)
		}
		leave()
		group.Wait()
		if got := o.owners(); got != "bb" {
			t.Errorf("the object and its child are with %s, want bb", got)
		}
	})
}

// TestReleaseOfOutdatedObject shows the object as it was before another client moved it.
func TestReleaseOfOutdatedObject(t *testing.T) {
	o := newOwner(t)
	before, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
	if err != nil {
		t.Fatal(err)
	}
	o.frozen = before
	if err := o.api.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home"}}, assignTo("c")); err != nil {
		t.Fatal(err)
	}
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners()[:1]; got != "c" {
		t.Errorf("the object was taken from c and is with %s", got)
	}
}

// TestHangingReconcilesDoNotHoldUpReleases has more reconciles that ignore their contexts than releases at a time.
func TestHangingReconcilesDoNotHoldUpReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t)
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
			t.Errorf("it is not released: %v", err)
		}
		if got := o.owners(); got != "bb" {
			t.Errorf("the object and its child are with %s, want bb", got)
		}
		stop()
		group.Wait()
	})
}

// TestReleaseAll leaves the ring.
func TestReleaseAll(t *testing.T) {
	for name, test := range map[string]struct {
		peers    []string
		released int
		complete bool
		owners   string
	}{
		"with a peer":          {[]string{"b"}, 1, true, "bb"},
		"not all are visible":  {[]string{""}, 1, true, "a"}, // no label, and the child is left to the sharder
		"without another peer": {nil, 0, false, "aa"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwner(t)
			o.peers = test.peers
			released, complete := o.ReleaseAll(t.Context())
			if released != test.released || complete != test.complete || o.owners() != test.owners {
				t.Errorf("got %d %t %q, want %d %t %q", released, complete, o.owners(), test.released, test.complete, test.owners)
			}
		})
	}
}

// TestAnswers classifies errors of writes as refusals, other responses, or no response.
func TestAnswers(t *testing.T) {
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
		"forbidden":         {status(http.StatusForbidden), true, true},
		"invalid":           {status(http.StatusUnprocessableEntity), true, true},
		"too many requests": {status(http.StatusTooManyRequests), true, true},
		"internal error":    {internal(), false, true},
		"error of etcd":     {status(http.StatusInternalServerError), false, false},
		"conflict":          {apierrors.NewConflict(schema.GroupResource{}, "home", errReset), false, true},
		"not found":         {apierrors.NewNotFound(schema.GroupResource{}, "home"), false, true},
		"timeout":           {status(http.StatusGatewayTimeout), false, false},
		"request timeout":   {status(http.StatusRequestTimeout), false, false},
		"a proxy's error":   {internal(metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse}), false, false},
		"connection reset":  {errReset, false, false},
	} {
		if isRefusal(test.err) != test.refused || isAnswer(test.err) != test.answer {
			t.Errorf("%s: refused %t, answered %t", name, isRefusal(test.err), isAnswer(test.err))
		}
	}
}

// TestSeveralCaches watches a kind in two ways. A released object stays blocked until both caches show that.
func TestSeveralCaches(t *testing.T) {
	g := newGate()
	g.block(object)
	g.markReleased(object, "10", 2)
	g.endRelease(object)
	g.observeDeletion(object, "10", 1)
	if entered(g) {
		t.Error("a reconcile begins on what the first cache still shows")
	}
	g.observeDeletion(object, "10", 0)
	if !entered(g) {
		t.Error("it stays blocked")
	}
}

// TestReleaseWaitsUntilCachesAgree has a second cache that does not show the object yet. It could show the
// object after the release.
func TestReleaseWaitsUntilCachesAgree(t *testing.T) {
	o := newOwner(t)
	if _, _, err := o.Declare(configMaps, &metav1.PartialObjectMetadata{}); err != nil {
		t.Fatal(err)
	}
	o.behind = 1
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errCachesDiffer) {
		t.Errorf("got %v", err)
	}
	if got := o.owners(); got != "aa" {
		t.Errorf("the object and its child are with %s, want aa", got)
	}
	o.behind = 0
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Error(err)
	}
	if got := o.owners(); got != "bb" {
		t.Errorf("the object and its child are with %s, want bb", got)
	}
}

// TestKeptObjectTakesChildrenBack has a webhook assign the object to this shard again, in the write that
// releases it.
func TestKeptObjectTakesChildrenBack(t *testing.T) {
	o := newOwner(t)
	o.keeps = true
	if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
		t.Fatal(err)
	}
	if got := o.owners(); got != "aa" {
		t.Errorf("the object and its child are with %s, want aa", got)
	}
}

// TestForeignObjectInCacheIsNotReconciled has a cache that ignores the label selector.
func TestForeignObjectInCacheIsNotReconciled(t *testing.T) {
	o := newOwner(t)
	o.frozen = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home", Labels: map[string]string{shardLabel: "b"}}}
	if _, _, state, err := o.Begin(t.Context(), o.kind, 0, object.NamespacedName); err == nil || state != NotOwned {
		t.Errorf("got state %v and error %v", state, err)
	}
}
