package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/controller"
)

const finalizer = "example.com/coordination"

// participant is a Participant that notes what is done with it.
type participant struct {
	prometheus.Collector
	changed    chan struct{}
	changedCtx context.Context // of Changed
	leaveErr   error           // what Leave returns
	calls      []string
}

func newParticipant() *participant {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "waits", Help: "Waits."})
	return &participant{Collector: gauge}
}

func (p *participant) Metrics() prometheus.Collector { return p.Collector }

func (p *participant) Changed(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{})
	context.AfterFunc(ctx, func() { close(changed) })
	p.changedCtx, p.changed = ctx, changed
	return changed
}

func (p *participant) Leave(context.Context, coordination.System) error {
	p.calls = append(p.calls, "leave")
	return p.leaveErr
}

func (p *participant) Close(ctx context.Context) error {
	if _, limited := ctx.Deadline(); limited {
		p.calls = append(p.calls, "close")
	}
	return errors.New("the store does not answer")
}

// object returns one with finalizers, and a client that knows it.
func object(finalizers ...string) (client.Client, *corev1.ConfigMap) {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "orders", Finalizers: finalizers}}
	return fake.NewClientBuilder().WithObjects(o).Build(), o
}

func TestChangeReconcilesTheObject(t *testing.T) {
	t.Parallel()
	all := controller.Participants[*participant]{Registry: prometheus.NewRegistry()}
	defer all.Close(context.WithoutCancel(t.Context()))
	p, key := newParticipant(), client.ObjectKey{Namespace: "dc1", Name: "orders"}
	if err := all.Add(key, p); err != nil {
		t.Fatal(err)
	}
	p.changed <- struct{}{} // the controller has not started yet: it reconciles all objects then
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: "orders"})
	defer queue.ShutDown()
	if err := all.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	p.changed <- struct{}{}
	if got, _ := queue.Get(); got.NamespacedName != key {
		t.Errorf("reconciled %s", got)
	}
}

func TestOneParticipantPerObject(t *testing.T) {
	t.Parallel()
	all := controller.Participants[*participant]{Registry: prometheus.NewRegistry()}
	defer all.Close(context.WithoutCancel(t.Context()))
	first, second := newParticipant(), newParticipant()
	key, other := client.ObjectKey{Name: "orders"}, client.ObjectKey{Name: "payments"}
	if err := all.Add(key, first); err != nil {
		t.Fatal(err)
	}
	if err := all.Add(key, second); err == nil {
		t.Error("the object has two participants")
	}
	if err := all.Add(other, second); err == nil || second.changedCtx != nil {
		t.Errorf("it was added although its metrics are registered already: %v", err)
	}
	if got, found := all.Get(key); !found || got != first {
		t.Errorf("found %t, %v", found, got)
	}
	if _, found := all.Get(other); found {
		t.Error("found what was not added")
	}
}

func TestAddFinalizerKeepsOtherFinalizers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, stale := object()
	all := controller.Participants[*participant]{Client: c, Finalizer: finalizer}
	key := client.ObjectKeyFromObject(stale)
	if err := c.Get(ctx, key, stale); err != nil {
		t.Fatal(err)
	}
	now := stale.DeepCopy()
	now.Finalizers = []string{"example.com/backup"}
	if err := c.Update(ctx, now); err != nil {
		t.Fatal(err)
	}
	if err := all.AddFinalizer(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("a version from before was patched: %v", err)
	}
	for range 2 {
		if err := all.AddFinalizer(ctx, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(ctx, key, now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/backup", finalizer}, now.Finalizers); diff != "" {
		t.Error(diff)
	}
}

// The finalizer goes when the participant has left, and not before.
func TestFinalizerIsRemovedAfterLeave(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, o := object(finalizer)
	registry := prometheus.NewRegistry()
	all := controller.Participants[*participant]{Client: c, Finalizer: finalizer, Registry: registry}
	p, key := newParticipant(), client.ObjectKeyFromObject(o)
	if err := errors.Join(all.Add(key, p), c.Delete(ctx, o), c.Get(ctx, key, o)); err != nil {
		t.Fatal(err)
	}
	p.leaveErr = coordination.ErrAccepted
	if err := all.Leave(ctx, o, nil); !errors.Is(err, coordination.ErrAccepted) {
		t.Errorf("got %v", err)
	}
	if err := c.Get(ctx, key, o); err != nil || p.changedCtx.Err() != nil {
		t.Fatalf("it is gone before it has left: %v", err)
	}
	p.leaveErr = nil
	if err := all.Leave(ctx, o, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"leave", "leave", "close"}, p.calls); diff != "" {
		t.Error(diff)
	}
	if err := c.Get(ctx, key, o); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, found := all.Get(key); found || p.changedCtx.Err() == nil || registry.Unregister(p.Collector) {
		t.Error("the participant is still there")
	}
}

func TestLeaveWithoutParticipant(t *testing.T) {
	t.Parallel()
	c, o := object(finalizer)
	all := controller.Participants[*participant]{Client: c, Finalizer: finalizer}
	ctx, key := t.Context(), client.ObjectKeyFromObject(o)
	if err := errors.Join(c.Delete(ctx, o), c.Get(ctx, key, o), all.Leave(ctx, o, nil)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, key, o); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestCloseEndsAllParticipants(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	all := controller.Participants[*participant]{Registry: registry}
	p, key := newParticipant(), client.ObjectKey{Name: "orders"}
	for range 2 { // what is closed can be added again
		if err := all.Add(key, p); err != nil {
			t.Fatal(err)
		}
		all.Close(t.Context())
		if _, found := all.Get(key); found || p.changedCtx.Err() == nil {
			t.Error("it was not ended")
		}
	}
	if diff := cmp.Diff([]string{"close", "close"}, p.calls); diff != "" {
		t.Error(diff)
	}
	if registry.Unregister(p.Collector) {
		t.Error("its metrics are still registered")
	}
}

func TestReporterWritesEvents(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	_, o := object()
	report := controller.NewReporter(t.Context(), recorder, o)
	report.Events(&coordination.Result{Events: []coordination.Event{
		{Reason: "Began", Message: "Restart of dc1-1."}, {Reason: "GaveUp", Message: "100% of " + strings.Repeat("x", 2000)},
	}})
	for _, want := range []string{"Normal Began Restart of dc1-1.", "Warning GaveUp 100% of " + strings.Repeat("x", 1013) + "..."} {
		select {
		case got := <-recorder.Events:
			if got != want {
				t.Errorf("%q, not %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("no event")
		}
	}
}

func TestSetConditionReportsNewReasons(t *testing.T) {
	t.Parallel()
	var reported []string
	report := controller.Reporter(func(warning bool, reason, message string) {
		reported = append(reported, fmt.Sprint(warning, " ", reason, ": ", message))
	})
	var conditions []metav1.Condition
	for _, c := range []metav1.Condition{
		{Status: metav1.ConditionTrue, Reason: "Settled"},
		{Status: metav1.ConditionFalse, Reason: "MixedModes", Message: "dc3"},
		{Status: metav1.ConditionFalse, Reason: "MixedModes", Message: "dc2, dc3"},
		{Status: metav1.ConditionFalse, Reason: "Denied", Message: "by dc2"},
		{Status: metav1.ConditionTrue, Reason: "Denied"},
		{Status: metav1.ConditionFalse, Reason: "Denied", Message: "again"},
	} {
		c.Type = coordination.ConditionCoordinated
		report.SetCondition(&conditions, c)
		if len(conditions) != 1 || conditions[0].Message != c.Message {
			t.Errorf("the conditions are %v", conditions)
		}
	}
	if diff := cmp.Diff([]string{"true MixedModes: dc3", "true Denied: by dc2", "true Denied: again"}, reported); diff != "" {
		t.Error(diff)
	}
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "12345678": "12345678", "123456789": "12345...", "1234äöü": "1234...", "äöüäö": "äö..."} {
		if got := controller.Truncate(text, 8); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}
