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

// nodeName is the name of the node that there is not.
const nodeName = "pretended"

// PretendNode prepares a node that runs nothing. It is told which Pods are processes, and tells what goes wrong.
func (s *Stage) PretendNode(processes func(namespace, name string) (fakenode.Process, bool), tell func(about, what string, wrong bool)) (*fakenode.Node, error) {
	path := filepath.Join(s.Dir, "kubeconfigs", "node")
	if err := s.Plane.WriteKubeconfig(path, fakenode.Identity(nodeName)); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the node's kubeconfig: %w", err)
	}
	config.QPS = -1 // as a node with many pods
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("giving the node access: %w", err)
	}
	return fakenode.New(fakenode.Options{
		Name: nodeName, Version: s.Kubernetes, Clientset: clientset, Processes: processes,
		Report: func(err error) { tell("node "+nodeName, err.Error(), true) },
	}), nil
}

// Process is what the node says of the Pod of a process.
func Process(member supervisor.Member) fakenode.Process {
	process := fakenode.Process{Running: member.PID != 0, Restarts: int32(min(member.Restarts, math.MaxInt32))} //nolint:gosec // it fits
	if !process.Running {
		process.Reason = "ProcessIs" + strings.ToUpper(string(member.Phase[:1])) + string(member.Phase[1:])
	}
	return process
}
