package demo

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/demo/node"
)

// nodeName is the name of the node that there is not.
const nodeName = "pretended"

// pretendNode runs a node that runs nothing.
func (d *Demo) pretendNode(context.Context) error {
	path := filepath.Join(d.options.Dir, "kubeconfigs", "node")
	if err := d.options.Plane.WriteKubeconfig(path, node.Identity(nodeName)); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("reading the node's kubeconfig: %w", err)
	}
	config.QPS = -1 // as a node with many pods
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("giving the node access: %w", err)
	}
	d.node = node.New(node.Options{
		Name: nodeName, Version: d.options.Kubernetes, Clientset: clientset, Processes: d.process,
		Report: func(err error) { d.scene.Tell("node "+nodeName, err.Error(), true) },
	})
	d.background.Go(func() { d.node.Run(d.ctx) })
	return nil
}

// process is what the node says of a Pod that is a process.
func (d *Demo) process(namespace, name string) (process node.Process, is bool) {
	for _, member := range append(d.instances.Members(), d.sharders.Members()...) {
		if member.Name != name || namespace != d.namespaceOf(name) {
			continue
		}
		process = node.Process{Running: member.PID != 0, Restarts: int32(min(member.Restarts, math.MaxInt32))} //nolint:gosec // it fits
		if !process.Running {
			process.Reason = "ProcessIs" + strings.ToUpper(string(member.Phase[:1])) + string(member.Phase[1:])
		}
		return process, true
	}
	return node.Process{}, false
}

func (d *Demo) namespaceOf(process string) string {
	if strings.HasPrefix(process, sharder+"-") {
		return shardingv1alpha1.NamespaceSystem
	}
	return d.example.namespace
}
