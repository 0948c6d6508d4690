package cluster

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringmaster-project/ringmaster/demo/fakenode"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
)

// nodeName is the name of the fake node.
const nodeName = "fake"

// NewFakeNode creates a node that runs no containers. processes returns the process behind a Pod,
// if there is one; report receives errors.
func (c *Cluster) NewFakeNode(processes func(namespace, name string) (fakenode.Process, bool), report func(about, message string, failure bool)) (*fakenode.Node, error) {
	path := filepath.Join(c.Dir, "kubeconfigs", "node")
	if err := c.Plane.WriteKubeconfig(path, fakenode.Identity(nodeName)); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the node's kubeconfig: %w", err)
	}
	config.QPS = -1 // the node updates hundreds of pods
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the node's client: %w", err)
	}
	return fakenode.New(fakenode.Options{
		Name: nodeName, Version: c.Kubernetes, Clientset: clientset, Processes: processes,
		Report: func(err error) { report("node "+nodeName, err.Error(), true) },
	}), nil
}

// PodProcess returns the state of a process as the fake node reports it in the status of its Pod.
func PodProcess(member supervisor.ProcessStatus) fakenode.Process {
	process := fakenode.Process{Running: member.PID != 0, Restarts: int32(min(member.Restarts, math.MaxInt32))} //nolint:gosec // it fits
	if !process.Running {
		process.Reason = "ProcessIs" + strings.ToUpper(string(member.Phase[:1])) + string(member.Phase[1:])
	}
	return process
}
