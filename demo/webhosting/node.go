package webhosting

import (
	"context"
	"strings"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/fakenode"
)

// startNode runs the fake node.
func (d *Demo) startNode(context.Context) (err error) {
	if d.node, err = d.NewFakeNode(d.process, d.observer.RecordEvent); err != nil {
		return err
	}
	d.background.Go(func() { d.node.Run(d.ctx) })
	return nil
}

// process returns the process that a Pod stands for.
func (d *Demo) process(namespace, name string) (process fakenode.Process, found bool) {
	for _, status := range append(d.instances.Processes(), d.sharders.Processes()...) {
		if status.Name == name && namespace == d.namespaceOf(name) {
			return cluster.PodProcess(status), true
		}
	}
	return fakenode.Process{}, false
}

func (d *Demo) namespaceOf(process string) string {
	if strings.HasPrefix(process, sharder+"-") {
		return shardingv1alpha1.NamespaceSystem
	}
	return d.example.namespace
}
