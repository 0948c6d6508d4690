package shard_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// budgets returns your existing reconciler, which does not change.
func budgets(client.Client) reconcile.Reconciler {
	return reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
}

// To shard an operator, replace its manager and its builder, and add an option for each sharded kind.
func ExampleNewManager() {
	mgr, err := shard.NewManager(ctrl.GetConfigOrDie(), manager.Options{}, shard.Options{Ring: "budget"})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.AddReadyzCheck("shard", mgr.Shard().Ready); err != nil {
		log.Fatal(err)
	}
	err = shard.ControllerManagedBy(mgr).
		For(&appsv1.Deployment{}, shard.Sharded{}).
		Owns(&policyv1.PodDisruptionBudget{}, shard.Sharded{}).
		Complete(budgets(mgr.GetClient()))
	if err != nil {
		log.Fatal(err)
	}
	// Start returns an error when the Lease is lost; the process must exit then.
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

// Join adds a shard to a manager that other code makes, such as a framework.
func ExampleShard_Join() {
	config, options := ctrl.GetConfigOrDie(), manager.Options{}
	member, err := shard.New(config, shard.Options{Ring: "budget"})
	if err != nil {
		log.Fatal(err)
	}
	if err := member.Configure(&options); err != nil {
		log.Fatal(err)
	}
	made, err := ctrl.NewManager(config, options) // or another function that uses these options
	if err != nil {
		log.Fatal(err)
	}
	mgr, err := member.Join(made)
	if err != nil {
		log.Fatal(err)
	}
	if err := shard.ControllerManagedBy(mgr).For(&appsv1.Deployment{}, shard.Sharded{}).Complete(budgets(mgr.GetClient())); err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

// Sharded and leader-elected controllers can run in the same operator.
func ExampleManager_Unsharded() {
	mgr, err := shard.NewManager(ctrl.GetConfigOrDie(), manager.Options{
		LeaderElection: true, LeaderElectionID: "budget-leader",
	}, shard.Options{Ring: "budget"})
	if err != nil {
		log.Fatal(err)
	}
	// Build sharded controllers first: they define the sharded kinds.
	if err := shard.ControllerManagedBy(mgr).For(&appsv1.Deployment{}, shard.Sharded{}).Complete(budgets(mgr.GetClient())); err != nil {
		log.Fatal(err)
	}
	// Build a controller of an unsharded kind as usual.
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Complete(budgets(mgr.GetClient())); err != nil {
		log.Fatal(err)
	}
	// A controller that needs the Deployments of all shards uses the manager that Unsharded returns.
	all, err := mgr.Unsharded()
	if err != nil {
		log.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(all).Named("quota").For(&appsv1.Deployment{}).Complete(budgets(all.GetClient())); err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

// Unfiltered lists the objects of all shards, from a reconciler of a sharded kind.
func ExampleUnfiltered() {
	mgr, err := shard.NewManager(ctrl.GetConfigOrDie(), manager.Options{}, shard.Options{Ring: "budget"})
	if err != nil {
		log.Fatal(err)
	}
	all := &appsv1.DeploymentList{}
	if err := mgr.GetClient().List(context.Background(), all, client.InNamespace("shop"), shard.Unfiltered{}); err != nil {
		log.Fatal(err)
	}
}

// Lease provides the membership of a shard without controller-runtime. The operator does the rest, as
// examples/plain shows.
func ExampleLease() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	lease := &shard.Lease{Client: clients.CoordinationV1(), Ring: "budget", Namespace: "budget-system", Name: "budget-0"}
	err = lease.Run(ctrl.SetupSignalHandler(), func(ctx context.Context) {
		<-ctx.Done() // until then, reconcile the objects with the label of this shard
	})
	if err != nil {
		log.Fatal(err) // ErrLeaseLost or ErrNameTaken, for example
	}
}

// Validate checks the names before anything starts: they become parts of labels, so some are invalid.
func ExampleLease_Validate() {
	lease := &shard.Lease{Ring: "budget", Namespace: "budget-system", Name: "budget-0"}
	fmt.Println(lease.Validate())
	lease.Name = "Budget 0"
	fmt.Println(strings.SplitAfter(lease.Validate().Error(), "shard")[0])
	// Output:
	// <nil>
	// "Budget 0" cannot be the name of a shard
}

func ExampleNew() {
	_, err := shard.New(&rest.Config{}, shard.Options{})
	fmt.Println(err)

	member, err := shard.New(&rest.Config{}, shard.Options{Ring: "budget", Name: "budget-0", Namespace: "budget-system"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(member.Selector())
	// Output:
	// Options.Ring is required: set it to the name of a ControllerRing
	// shard.alpha.sharding.timebertt.dev/budget=budget-0
}

// Leader election for an operator that is written with client-go alone.
func ExampleLeader() {
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	leader := &shard.Leader{Client: client.CoordinationV1(), Namespace: "budget-system", Name: "budget-leader"}
	// Run waits until this process leads, and releases the Lease after the work has ended. The process must
	// exit then.
	if err := leader.Run(ctrl.SetupSignalHandler(), func(ctx context.Context) {
		<-ctx.Done() // the controller's work
	}); err != nil {
		log.Fatal(err)
	}
}
