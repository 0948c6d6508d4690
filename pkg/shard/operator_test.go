package shard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// operator is a process with a sharded controller, which keeps a Secret for every ConfigMap, and a
// leader-elected one, which counts ConfigMaps. It prints a line for each step.
func operator(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	namespace := os.Getenv("POD_NAMESPACE")
	options := manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	}
	if os.Getenv("FAIL") != "" {
		options.GracefulShutdownTimeout = new(2 * time.Second)
	}
	if os.Getenv("MODE") == "" {
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, "leader", namespace
	}
	selector := metav1.AddLabelToSelector(&metav1.LabelSelector{}, corev1.LabelMetadataName, namespace)
	if os.Getenv("NAMESPACES") == "labels" {
		selector = metav1.AddLabelToSelector(selector, "project", "true")
	}
	grace := 2 * time.Second
	if value := os.Getenv("GRACE"); value != "" {
		if grace, err = time.ParseDuration(value); err != nil {
			return err
		}
	}
	mgr, err := shard.NewManager(config, options, shard.Options{
		Mode: shard.Mode(os.Getenv("MODE")), NamespaceSelector: selector,
		Ring: "ring", Name: os.Getenv("SHARD"),
		LeaseDuration: duration, RenewDeadline: deadline, RetryPeriod: retry,
		DrainGrace: grace,
	})
	if err != nil {
		return err
	}
	// An index may be added before its kind is known to be sharded.
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "data.account", func(object client.Object) []string {
		return []string{object.(*corev1.ConfigMap).Data["account"]}
	}); err != nil {
		return err
	}
	w := &worker{Client: mgr.GetClient(), hanging: make(chan struct{})}
	if err := addWorker(mgr, w); err != nil {
		return err
	}
	if err := addCounter(mgr, namespace); err != nil {
		return err
	}
	if os.Getenv("FAIL") != "" {
		if err := errors.Join(
			mgr.Shard().Add(manager.RunnableFunc(w.failWhileHanging)), mgr.Shard().Add(manager.RunnableFunc(w.ignoreContext)),
		); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

func addWorker(mgr *shard.Manager, w *worker) error {
	// No predicate lets a change of labels through: drains must be heard of all the same.
	return shard.ControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, shard.Sharded{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: dataChanged})).
		Owns(&corev1.Secret{}, builder.OnlyMetadata, shard.Sharded{}).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(w.ofAccount)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		OnReleased(func(request reconcile.Request) { printLine("released %s", request.Name) }).
		Complete(w)
}

func dataChanged(update event.UpdateEvent) bool {
	return !maps.Equal(update.ObjectOld.(*corev1.ConfigMap).Data, update.ObjectNew.(*corev1.ConfigMap).Data)
}

// addCounter adds a controller for all ConfigMaps although they are sharded.
func addCounter(mgr *shard.Manager, namespace string) error {
	all, err := mgr.Unsharded()
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(all).
		Named("counter").
		For(&corev1.ConfigMap{}).
		Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			list := &corev1.ConfigMapList{}
			err := all.GetClient().List(ctx, list, client.InNamespace(namespace), client.HasLabels{ours})
			printLine("counted %d", len(list.Items))
			return reconcile.Result{}, err
		}))
}

var saying sync.Mutex

func printLine(format string, args ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf(format+"\n", args...)
}

// worker reconciles ConfigMaps.
type worker struct {
	client.Client
	hanging chan struct{} // closed by the ConfigMap that hangs
}

// failWhileHanging is a runnable that fails while a reconcile hangs.
func (w *worker) failWhileHanging(ctx context.Context) error {
	select {
	case <-w.hanging:
		return errors.New("this runnable has failed")
	case <-ctx.Done():
		return nil
	}
}

// ignoreContext is a runnable that hangs as well.
func (w *worker) ignoreContext(context.Context) error {
	<-w.hanging
	time.Sleep(time.Minute)
	printLine("ended the runnable")
	return nil
}

// ofAccount finds the ConfigMaps of this shard that name a ServiceAccount.
func (w *worker) ofAccount(ctx context.Context, account client.Object) []reconcile.Request {
	list := &corev1.ConfigMapList{}
	if err := w.List(ctx, list, client.MatchingFields{"data.account": account.GetName()}); err != nil {
		printLine("cannot list: %v", err)
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile creates the Secret, and follows the instructions in the ConfigMap.
func (w *worker) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	main := &corev1.ConfigMap{}
	if err := w.Get(ctx, request.NamespacedName, main); err != nil {
		printLine("reconciled %s, which is not there: %v", request.Name, err)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	printLine("began %s", request.Name)
	defer printLine("ended %s", request.Name)
	if file, until := strings.CutPrefix(main.Data["do"], "until "); until {
		if err := waitForFile(ctx, file); err != nil {
			return reconcile.Result{}, err
		}
	}
	switch main.Data["do"] {
	case "wait": // until told otherwise
		<-ctx.Done()
		printLine("%s: %v", request.Name, context.Cause(ctx))
		return reconcile.Result{}, ctx.Err()
	case "hang": // whatever it is told
		close(w.hanging)
		time.Sleep(time.Minute)
	case "look":
		w.printObjects(ctx, request)
	}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	if err := ctrl.SetControllerReference(main, child, w.Scheme()); err != nil {
		return reconcile.Result{}, err
	}
	var err error
	switch main.Data["do"] {
	case "apply":
		config := corev1ac.Secret(child.Name, child.Namespace).WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion("v1").WithKind("ConfigMap").WithName(main.Name).WithUID(main.UID).WithController(true))
		err = w.Apply(ctx, config, client.FieldOwner("operator"))
		printLine("applied %s with the labels %v", request.Name, config.Labels)
	case "patch":
		child.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err = w.Patch(ctx, child, client.Apply, client.FieldOwner("operator")) //nolint:staticcheck // many operators still do
	default:
		err = w.Create(ctx, child)
	}
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return reconcile.Result{}, err
}

// waitForFile waits until a file exists.
func waitForFile(ctx context.Context, name string) error {
	for {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// printObjects prints which objects of other shards the client returns.
func (w *worker) printObjects(ctx context.Context, request reconcile.Request) {
	other := client.ObjectKey{Namespace: request.Namespace, Name: "theirs"}
	printLine("filtered: %t", w.Get(ctx, other, &corev1.ConfigMap{}) == nil)
	printLine("unfiltered: %t", w.Get(ctx, other, &corev1.ConfigMap{}, shard.Unfiltered{}) == nil)
	list := &corev1.ConfigMapList{}
	if err := w.List(ctx, list); err != nil {
		printLine("cannot list: %v", err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	slices.Sort(names)
	printLine("mine: %s", strings.Join(names, " "))
}
