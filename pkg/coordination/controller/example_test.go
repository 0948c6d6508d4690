package controller_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/controller"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
)

// idleSystem is a System whose members need nothing.
type idleSystem struct{ coordination.System }

func (idleSystem) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	return coordination.Needs{Members: []coordination.MemberID{"dc1-1"}}, nil
}

// databases reconciles objects that each describe the members of a database in one data center.
type databases struct {
	client.Client
	recorder     events.EventRecorder
	participants controller.Participants[*coordination.Coordinator]
	connect      func(object client.Object) (*coordination.Coordinator, error)
}

func (d *databases) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := &corev1.ConfigMap{}
	if err := d.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	c, found := d.participants.Get(request.NamespacedName)
	if !found { // also of a deleted object: an earlier process may have said something
		var err error
		if c, err = d.connect(object); err != nil {
			return reconcile.Result{}, err
		}
		if err := d.participants.Add(request.NamespacedName, c); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !object.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, d.participants.Leave(ctx, object, idleSystem{})
	}
	if err := d.participants.AddFinalizer(ctx, object); err != nil {
		return reconcile.Result{}, err
	}
	settings := coordination.Settings{Mode: coordination.Local, Prefix: "dc1"} // those of the object's spec
	result, err := c.Reconcile(ctx, settings, idleSystem{})
	report := controller.NewReporter(ctx, d.recorder, object)
	report.Events(result)
	var conditions []metav1.Condition // those of the object's status
	report.SetCondition(&conditions, c.Condition(result, err, "dc1", "dc2"))
	fmt.Println(conditions[0].Reason, object.Finalizers)
	return reconcile.Result{RequeueAfter: result.RequeueAfter}, err
}

// A reconciler has a participant for each object. Its manager watches participants.Source() with WatchesRawSource.
func Example() {
	ctx := context.Background()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "orders"}}
	d := &databases{Client: fake.NewClientBuilder().WithObjects(object).Build(), recorder: events.NewFakeRecorder(10)}
	d.participants.Client, d.participants.Finalizer = d.Client, "example.com/coordination"
	d.participants.Registry = prometheus.NewRegistry() // by default that of controller-runtime
	defer d.participants.Close(ctx)

	clients := kubernetesfake.NewClientset()
	d.connect = func(object client.Object) (*coordination.Coordinator, error) {
		store, err := kubestore.New(clients, kubestore.Options{Namespace: "coordination"})
		if err != nil {
			return nil, err
		}
		return coordination.New(coordination.Options{
			Store: store, System: object.GetName(), Name: "dc1-operator", SessionDuration: time.Minute, Actions: []coordination.Action{"Restart"},
		})
	}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	for range 2 {
		if _, err := d.Reconcile(ctx, request); err != nil {
			fmt.Println(err)
		}
		_ = d.Delete(ctx, object)
	}
	fmt.Println("gone:", d.Get(ctx, request.NamespacedName, object) != nil)
	// Output:
	// Local [example.com/coordination]
	// gone: true
}
