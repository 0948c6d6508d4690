package webhosting

import (
	"context"
	"strings"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/fakenode"
)

// pretendNode runs a node that runs nothing.
func (d *Demo) pretendNode(context.Context) (err error) {
	if d.node, err = d.PretendNode(d.process, d.scene.Tell); err != nil {
		return err
	}
	d.background.Go(func() { d.node.Run(d.ctx) })
	return nil
}

// process is what the node says of a Pod that is a process.
func (d *Demo) process(namespace, name string) (process fakenode.Process, is bool) {
	for _, member := range append(d.instances.Members(), d.sharders.Members()...) {
		if member.Name == name && namespace == d.namespaceOf(name) {
			return cluster.Process(member), true
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
