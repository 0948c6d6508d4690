package ownership

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addSecondCache adds a second form in which the main kind is watched.
func (o *testShard) addSecondCache() {
	o.t.Helper()
	if _, _, err := o.Declare(configMaps, &metav1.PartialObjectMetadata{}); err != nil {
		o.t.Fatal(err)
	}
}

// TestObjectIsReconciledUntilCachesAgree has a second cache that lags for a minute. The shard reconciles the
// object meanwhile, and releases it when the cache has caught up, before the next retry.
func TestObjectIsReconciledUntilCachesAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestShard(t)
		o.addSecondCache()
		drained, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
		if err != nil {
			t.Fatal(err)
		}
		o.laggingCache = 1
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { o.Run(ctx) })
		first, second := o.Handler(o.kind, 0), o.Handler(o.kind, 1)
		for range 600 {
			first.OnUpdate(drained, drained)
			synctest.Wait()
			if !o.canReconcile() {
				t.Fatal("the object is not reconciled while a cache lags")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(o.results); n > 20 {
			t.Errorf("%d attempts in a minute, want about 12: 20 ms doubled up to 30 s", n)
		}
		if got := o.owners(); got != "aa" {
			t.Errorf("the owners of the object and its child are %s, want aa", got)
		}
		o.mu.Lock()
		o.laggingCache = 0
		o.mu.Unlock()
		second.OnAdd(drained, false)
		synctest.Wait()
		if got := o.owners(); got != "bb" {
			t.Errorf("when the caches agree, the owners of the object and its child are %s, want bb", got)
		}
		stop()
		group.Wait()
	})
}

func TestUnansweredReleaseStaysBlockedWhileCachesDiffer(t *testing.T) {
	o := newTestShard(t)
	o.addSecondCache()
	o.beforePatch = onlyMain(func(string) error { return errReset })
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errUnanswered) {
		t.Fatalf("got %v", err)
	}
	o.laggingCache = 1
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errCachesDiffer) {
		t.Errorf("got %v", err)
	}
	if o.canReconcile() {
		t.Error("a reconcile begins although the release may still be applied")
	}
}

// TestUnreadableCacheDoesNotBlock fails to read a cache. Nothing was written, so the shard continues to
// reconcile the object.
func TestUnreadableCacheDoesNotBlock(t *testing.T) {
	o := newTestShard(t)
	o.cacheErr = errReset
	if err := o.Release(t.Context(), object, o.drainTarget); !errors.Is(err, errReset) {
		t.Errorf("got %v", err)
	}
	o.cacheErr = nil
	if !o.canReconcile() {
		t.Error("the object is not reconciled")
	}
}

// TestReleasedObjectIsNotReleasedAgain retries a release that the caches do not show yet.
func TestReleasedObjectIsNotReleasedAgain(t *testing.T) {
	keep := func(context.Context, Key, metav1.Object) (string, bool) { return "", false }
	for name, test := range map[string]struct {
		to      Destination
		lagging int
	}{
		"the caches show no drain": {keep, 0},
		"the caches differ":        {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestShard(t)
			o.addSecondCache()
			before, err := o.Get(t.Context(), o.kind, 0, object.NamespacedName)
			if err != nil {
				t.Fatal(err)
			}
			o.cachedMain = before
			if err := o.Release(t.Context(), object, o.drainTarget); err != nil {
				t.Fatal(err)
			}
			o.laggingCache = test.lagging
			if _, err := o.release(t.Context(), object, test.to); err != nil {
				t.Error(err)
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
