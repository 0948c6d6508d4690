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
	if err := d.ForgetLogs(sharder+"-*", d.example.ring+"-*"); err != nil {
		return err
	}
	limit := startLimit + time.Duration(d.options.Websites)*perWebsite
	starting, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	for _, step := range d.steps() {
		d.options.Report(step.what)
		if err := step.do(starting); err != nil {
			return err
		}
	}
	return d.awaitObjects(ctx)
}

// step is a part of the start.
type step struct {
	what string
	do   func(context.Context) error
}

func (d *Demo) steps() []step {
	steps := []step{
		{"installing the kinds of resources", d.installKinds},
		{"installing namespaces and roles", d.installRoles},
		{"pretending a node", d.pretendNode},
		{"looking at the cluster", d.look},
	}
	if d.options.Mode == view.ModeShard {
		steps = append(steps, step{fmt.Sprintf("starting %d replicas of the sharder", replicas), d.startSharders})
	}
	return append(steps,
		step{"starting " + prose.Count(d.options.Shards, "instance") + " of " + d.example.ring, d.startInstances},
		step{"creating projects, themes and " + prose.Count(d.options.Websites, d.example.object), d.createObjects},
	)
}

func (d *Demo) connect() (err error) {
	d.Stage, err = cluster.New(d.options.Options)
	d.scene = observer.New(observer.Options{
		Ring: d.example.ring, Namespace: d.example.namespace, Mode: d.options.Mode, Object: d.example.object,
		Clock: clock.RealClock{}, Changed: d.change,
	})
	return err
}

func (d *Demo) look(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		done <- d.scene.Watch(d.ctx, observer.Watch{
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
	if d.balancer, err = balancer.Start(d.serving); err != nil {
		return err
	}
	// All are prepared before the first one runs: from then on others read where they serve.
	var programs []supervisor.Program
	for number := range replicas {
		if err := d.MakeFolder(fmt.Sprintf("%s-%d", sharder, number)); err != nil {
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

// forgetPods removes the Pods of instances of an earlier run. It needs no precondition: none of them runs, and
// those that are needed are made again.
func (d *Demo) forgetPods(ctx context.Context) error {
	selector := metav1.ListOptions{LabelSelector: cluster.LabelName + "=" + d.example.ring}
	err := d.Clientset.CoreV1().Pods(d.example.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, selector)
	if err != nil {
		return fmt.Errorf("removing the Pods of an earlier run: %w", err)
	}
	return nil
}

// serving are the addresses of the replicas of the sharder that run.
func (d *Demo) serving() []string {
	var addresses []string
	for _, member := range d.sharders.Members() {
		if member.Phase == supervisor.Running {
			addresses = append(addresses, d.webhooks[member.Name])
		}
	}
	return addresses
}

// startInstances also waits until they have begun to share the work: what is created then has somebody who
// works on it at once.
func (d *Demo) startInstances(ctx context.Context) error {
	if err := d.forgetPods(ctx); err != nil {
		return err
	}
	if _, err := d.scale(d.options.Shards); err != nil {
		return err
	}
	return cluster.Until(ctx, "the instances to be ready", func(context.Context) (bool, error) {
		return atWork(d.State()), nil
	})
}

// atWork tells whether the instances share the work.
func atWork(state view.State) bool {
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
	if err := d.servePages(ctx); err != nil {
		return err
	}
	if err := d.createSamples(ctx); err != nil {
		return err
	}
	_, err := d.websites(ctx, d.options.Websites, d.options.Report)
	return err
}
