//go:build linux

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/machine"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/render"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/steps"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Supervisor is one node.
type Supervisor struct {
	folder layout.Folder
	assets string // the folder with Kubernetes' programs
	steps  *steps.Printer

	control                    *controlplane.ControlPlane
	client                     kubernetes.Interface
	containerd, proxy, kubelet *process.Process
	failed                     chan error
}

// New makes a supervisor of the node in folder, with Kubernetes' programs from assets. It tells
// printer what it does.
func New(folder layout.Folder, assets string, printer *steps.Printer) *Supervisor {
	return &Supervisor{folder: folder, assets: assets, steps: printer, failed: make(chan error, 1)}
}

// startTimeout is for each step of the start. On an idle machine all of them take ten seconds.
const startTimeout = 2 * time.Minute

// Run starts the node and keeps it running until ctx ends, which is no error, or a part of it does.
func (s *Supervisor) Run(ctx context.Context) error {
	err := s.start(ctx)
	if err == nil {
		err = s.watch(ctx)
	}
	// The node's end is worth its time also when ctx has ended.
	return errors.Join(err, s.stop(context.WithoutCancel(ctx)))
}

func (s *Supervisor) start(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"starting etcd, API server, controller manager and scheduler", s.startControlPlane},
		{"starting containerd", s.startContainerd},
		{"starting kubelet", s.startKubelet},
		// It looks for the Node object, and waits longer each time that it finds none.
		{"starting kube-proxy", s.startProxy},
	} {
		err := s.steps.Do(step.name, func() error {
			ctx, cancel := context.WithTimeout(ctx, startTimeout)
			defer cancel()
			return step.do(ctx)
		})
		if err != nil {
			return err
		}
	}
	return os.WriteFile(s.folder.Ready(), nil, 0o600)
}

// watch returns nil when ctx ends, and an error when a program did.
func (s *Supervisor) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.control.Failed():
		return err
	case err := <-s.failed:
		return err
	}
}

func (s *Supervisor) startControlPlane(ctx context.Context) error {
	control, err := controlplane.Start(ctx, controlplane.Options{
		Assets:            s.assets,
		Dir:               string(s.folder),
		ControllerManager: true,
		Scheduler:         true,
		BindAddress:       "0.0.0.0",
		AdvertiseAddress:  layout.Address,
		Port:              layout.APIPort,
		ExtraArgs: map[string][]string{controlplane.APIServer: {
			"--allow-privileged=true",
			// There is no DNS that knows the node's name.
			"--kubelet-preferred-address-types=InternalIP",
		}},
	})
	if err != nil {
		return err
	}
	s.control = control
	s.client, err = kubernetes.NewForConfig(control.RESTConfig())
	return err
}

func (s *Supervisor) startContainerd(ctx context.Context) error {
	path, err := machine.FindProgram("containerd")
	if err != nil {
		return err
	}
	if s.containerd, err = s.launch("containerd", path, "--config", s.folder.Config(render.Containerd)); err != nil {
		return err
	}
	return s.await(ctx, s.containerd, func(ctx context.Context) error { return dial(ctx, layout.ContainerdSocket) })
}

func (s *Supervisor) startKubelet(ctx context.Context) error {
	if err := errors.Join(s.writeKubeletIdentity(), machine.MakeCgroup(s.folder.Cgroup())); err != nil {
		return err
	}
	var err error
	s.kubelet, err = s.launch("kubelet", s.asset("kubelet"),
		"--config", s.folder.Config(render.Kubelet),
		"--kubeconfig", s.folder.Config(render.KubeletIdentity),
		"--hostname-override", layout.NodeName,
		"--node-ip", layout.Address,
	)
	if err != nil {
		return err
	}
	return s.await(ctx, s.kubelet, s.nodeReady)
}

func (s *Supervisor) startProxy(ctx context.Context) error {
	if err := s.writeProxyIdentity(); err != nil {
		return err
	}
	var err error
	if s.proxy, err = s.launch("kube-proxy", s.asset("kube-proxy"), "--config", s.folder.Config(render.Proxy)); err != nil {
		return err
	}
	return s.await(ctx, s.proxy, func(ctx context.Context) error {
		return healthy(ctx, "http://"+render.ProxyHealth+"/healthz")
	})
}

// stop ends everything, pods first, so that containers end in good order and volumes are unmounted.
func (s *Supervisor) stop(ctx context.Context) error {
	var errs []error
	if s.kubelet != nil && s.kubelet.Running() {
		// Not an error of the node: its pods are ended anyway, if less politely.
		if err := s.steps.Do("ending pods", func() error { return s.drain(ctx) }); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	for _, p := range []*process.Process{s.kubelet, s.proxy} {
		errs = append(errs, s.end(ctx, p))
	}
	if s.control != nil {
		errs = append(errs, s.steps.Do("stopping the control plane", func() error {
			ctx, cancel := context.WithTimeout(ctx, stopTimeout)
			defer cancel()
			return s.control.Stop(ctx)
		}))
	}
	return errors.Join(append(errs, s.end(ctx, s.containerd))...)
}
