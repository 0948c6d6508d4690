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
)

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
