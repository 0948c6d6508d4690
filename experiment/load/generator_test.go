package load

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// generator returns one whose creates call onCreate first.
func generator(t *testing.T, workers int, onCreate func() error) *Generator {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := webhostingv1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(kinds).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := onCreate(); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
	})
	return New(Options{Client: api, Namespaces: []string{"project"}, Themes: []string{"a", "b"}, Workers: workers, Runs: func(string) bool { return true }})
}

func operations(g *Generator, do scenario.Kind, outcome string) float64 {
	return testutil.ToFloat64(g.metrics.operations.WithLabelValues(string(do), outcome))
}

func TestRunExecutesAllOperations(t *testing.T) {
	t.Parallel()
	g := generator(t, 4, func() error { return nil })
	g.Run(t.Context(), time.Now(), slices.Values([]scenario.Operation{
		{Do: scenario.Create, Object: 1}, {Do: scenario.Create, Object: 2}, {Do: scenario.Change, Object: 1}, {At: time.Millisecond, Do: scenario.Delete, Object: 2},
	}))
	if operations(g, scenario.Create, done) != 2 || operations(g, scenario.Change, done) != 1 || operations(g, scenario.Delete, done) != 1 {
		t.Error("not all operations were executed")
	}
	left := &webhostingv1alpha1.WebsiteList{}
	if err := g.Client.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Spec.Theme != "b" {
		t.Errorf("got %+v, want one Website with the theme b", left.Items)
	}
}

// The second operation is due with the first, waits a second for the only worker, and takes another second: its user waits
// for two seconds. A duration that counted from the start of the request would be one.
func TestDurationsCountFromDueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := generator(t, 1, func() error {
			time.Sleep(time.Second)
			return nil
		})
		begin := time.Now()
		g.Run(t.Context(), begin, slices.Values([]scenario.Operation{{Do: scenario.Create, Object: 1}, {Do: scenario.Create, Object: 2}}))
		if count, sum := observed(t, g.metrics, ResponseTime); count != 2 || sum != 3 {
			t.Errorf("got %d responses with a sum of %g s, want 2 and 3 s", count, sum)
		}
		for _, object := range []string{"website-000001", "website-000002"} {
			website := g.tracker.get(client.ObjectKey{Namespace: "project", Name: object})
			if len(website.pending) != 1 || !website.pending[0].due.Equal(begin) {
				t.Errorf("%s: got pending changes %v, want one that was due at %s", object, website.pending, begin)
			}
		}
		if count, sum := observed(t, g.metrics, Lateness); count != 2 || sum != 1 {
			t.Errorf("got %d operations that started %g s late in total, want 2 and 1 s", count, sum)
		}
	})
}

func TestRunRetriesWhileAPIServerIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		g := generator(t, 4, func() error {
			if attempts.Add(1) < 4 {
				return syscall.ECONNREFUSED
			}
			return nil
		})
		g.Run(t.Context(), time.Now(), slices.Values([]scenario.Operation{{Do: scenario.Create, Object: 1}}))
		if operations(g, scenario.Create, done) != 1 || testutil.ToFloat64(g.metrics.retries) != 3 || len(g.Failures()) != 0 {
			t.Error("the request was not retried", g.Failures())
		}
		if _, sum := observed(t, g.metrics, ResponseTime); sum != 0.6 { // three pauses
			t.Errorf("the response took %g s, want 0.6 s from the first attempt", sum)
		}
	})
}

func TestRunReportsRefusedRequests(t *testing.T) {
	t.Parallel()
	g := generator(t, 4, func() error { return errors.New("forbidden") })
	g.Run(t.Context(), time.Now(), slices.Values([]scenario.Operation{{Do: scenario.Create, Object: 1}, {Do: scenario.Create, Object: 2}}))
	if operations(g, scenario.Create, failed) != 2 || g.Waiting() != 0 {
		t.Error("refused requests are still pending")
	}
	if got := g.Failures(); len(got) != 1 || !strings.Contains(got[0], "forbidden") {
		t.Error(got)
	}
}
