package load

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// users are some whose requests fail as onCreate says.
func users(t *testing.T, onCreate func() error) *Users {
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
	return New(Options{Client: api, Namespaces: []string{"project"}, Themes: []string{"a", "b"}, Workers: 4, Runs: func(string) bool { return true }})
}

func operations(u *Users, do scenario.Kind, outcome string) float64 {
	return testutil.ToFloat64(u.metrics.operations.WithLabelValues(string(do), outcome))
}

func TestDo(t *testing.T) {
	t.Parallel()
	u := users(t, func() error { return nil })
	u.Do(t.Context(), time.Now(), slices.Values([]scenario.Operation{
		{Do: scenario.Create, Object: 1}, {Do: scenario.Create, Object: 2}, {Do: scenario.Change, Object: 1}, {At: time.Millisecond, Do: scenario.Delete, Object: 2},
	}))
	if operations(u, scenario.Create, done) != 2 || operations(u, scenario.Change, done) != 1 || operations(u, scenario.Delete, done) != 1 {
		t.Error("not all was done")
	}
	left := &webhostingv1alpha1.WebsiteList{}
	if err := u.Client.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Spec.Theme != "b" {
		t.Errorf("%+v", left.Items)
	}
}

// While the API server is away users try again, and have waited since their first try.
func TestAway(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	u := users(t, func() error {
		if tries.Add(1) < 4 {
			return syscall.ECONNREFUSED
		}
		return nil
	})
	begin := time.Now()
	u.Do(t.Context(), begin, slices.Values([]scenario.Operation{{Do: scenario.Create, Object: 1}}))
	if operations(u, scenario.Create, done) != 1 || testutil.ToFloat64(u.metrics.retries) != 3 || len(u.Failures()) != 0 {
		t.Error("it was not tried again", u.Failures())
	}
	for _, found := range u.seen.all {
		if waited := time.Since(found.asked[0].at); waited < 500*time.Millisecond { // three pauses
			t.Error("it counts from the last try on:", waited)
		}
	}
}

// What is refused is given up, and why is told.
func TestRefused(t *testing.T) {
	t.Parallel()
	u := users(t, func() error { return errors.New("not you") })
	u.Do(t.Context(), time.Now(), slices.Values([]scenario.Operation{{Do: scenario.Create, Object: 1}, {Do: scenario.Create, Object: 2}}))
	if operations(u, scenario.Create, failed) != 2 || u.Left() != 0 {
		t.Error("it is still waited for")
	}
	if got := u.Failures(); len(got) != 1 || !strings.Contains(got[0], "not you") {
		t.Error(got)
	}
}
