package webhosting

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/demo/balancer"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/observer"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

func (d *Demo) start(ctx context.Context) error {
	if err := d.connect(); err != nil {
		return err
	}
	if err := d.RemoveLogs(sharder+"-*", d.example.ring+"-*"); err != nil {
		return err
	}
	limit := startLimit + time.Duration(d.options.Websites)*perWebsite
	starting, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the start took longer than %s", limit))
	defer cancel()
	for _, step := range d.steps() {
		d.options.Report(step.description)
		if err := step.do(starting); err != nil {
			return err
		}
	}
	return d.waitForObjects(ctx)
}

// step is a part of the start.
type step struct {
	description string
	do          func(context.Context) error
}

func (d *Demo) steps() []step {
	steps := []step{
		{"installing CustomResourceDefinitions", d.installKinds},
		{"installing namespaces and roles", d.installRoles},
		{"starting a fake node", d.startNode},
		{"watching the cluster", d.startObserving},
	}
	if d.options.Mode == view.ModeShard {
		steps = append(steps, step{fmt.Sprintf("starting %d replicas of the sharder", sharderReplicas), d.startSharders})
	}
	return append(steps,
		step{"starting " + prose.Count(d.options.Shards, "instance") + " of " + d.example.ring, d.startInstances},
		step{"creating projects, themes and " + prose.Count(d.options.Websites, d.example.object), d.createObjects},
	)
}

func (d *Demo) connect() (err error) {
	d.Cluster, err = cluster.New(d.options.Options)
	d.observer = observer.New(observer.Options{
		Ring: d.example.ring, Namespace: d.example.namespace, Mode: d.options.Mode, Object: d.example.object,
		Clock: clock.RealClock{}, Changed: d.change,
	})
	return err
}

func (d *Demo) startObserving(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		done <- d.observer.Watch(d.ctx, observer.Watch{
			Config: d.Plane.RESTConfig(), Kind: d.example.kind, Rings: d.options.Mode == view.ModeShard,
		})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Demo) startSharders(context.Context) (err error) {
	if d.balancer, err = balancer.Start(d.runningSharders); err != nil {
		return err
	}
	// All addresses are set before the first replica runs, because the load balancer reads them
	// from then on.
	var programs []supervisor.Program
	for number := range sharderReplicas {
		if err := d.CreateDir(fmt.Sprintf("%s-%d", sharder, number)); err != nil {
			return err
		}
		program, err := d.replica(number)
		if err != nil {
			return err
		}
		programs = append(programs, program)
	}
	for _, program := range programs {
		if err := d.sharders.Add(program); err != nil {
			return err
		}
	}
	return nil
}

// deleteStalePods deletes the Pods of an earlier run. It needs no precondition: none of these
// instances runs, and each creates its Pod again.
func (d *Demo) deleteStalePods(ctx context.Context) error {
	selector := metav1.ListOptions{LabelSelector: cluster.LabelName + "=" + d.example.ring}
	err := d.Clientset.CoreV1().Pods(d.example.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, selector)
	if err != nil {
		return fmt.Errorf("deleting the Pods of an earlier run: %w", err)
	}
	return nil
}

// serving are the addresses of the replicas of the sharder that run.
func (d *Demo) runningSharders() []string {
	var addresses []string
	for _, replica := range d.sharders.Processes() {
		if replica.Phase == supervisor.Running {
			addresses = append(addresses, d.webhookAddresses[replica.Name])
		}
	}
	return addresses
}

// startInstances starts the instances, and waits until they are ready, so that websites are
// reconciled as soon as they are created.
func (d *Demo) startInstances(ctx context.Context) error {
	if err := d.deleteStalePods(ctx); err != nil {
		return err
	}
	if _, err := d.scale(d.options.Shards); err != nil {
		return err
	}
	return cluster.WaitFor(ctx, "the instances to be ready", func(context.Context) (bool, error) {
		return instancesReady(d.State()), nil
	})
}

// instancesReady returns true if all instances are ready shards, or one of them leads, as the mode
// requires.
func instancesReady(state view.State) bool {
	leads := false
	for _, instance := range state.Instances {
		leads = leads || instance.Leads && !instance.Stale
		if state.Mode != view.ModeLead && (instance.Lease != "ready" || instance.Stale) {
			return false
		}
	}
	return len(state.Instances) == 0 || state.Ring.Problem == "" && (leads || state.Mode == view.ModeShard)
}

func (d *Demo) createObjects(ctx context.Context) error {
	if err := d.serveWebsites(ctx); err != nil {
		return err
	}
	if err := d.createSamples(ctx); err != nil {
		return err
	}
	_, err := d.websites(ctx, d.options.Websites, d.options.Report)
	return err
}
