//go:build linux

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/host"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/progress"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Supervisor is one node.
type Supervisor struct {
	folder   config.Folder
	assets   string // the folder with Kubernetes' programs
	progress *progress.Printer

	control                    *controlplane.ControlPlane
	client                     kubernetes.Interface
	containerd, proxy, kubelet *process.Process
	failed                     chan error
}

// New returns a supervisor of the node in folder, with Kubernetes' programs from assets. It prints its
// steps with printer.
func New(folder config.Folder, assets string, printer *progress.Printer) *Supervisor {
	return &Supervisor{folder: folder, assets: assets, progress: printer, failed: make(chan error, 1)}
}

// startTimeout is the timeout of each step of the start. On an idle machine all steps take ten seconds.
const startTimeout = 2 * time.Minute

// Run starts the node and runs it until ctx or one of its programs ends. The end of ctx is not an error.
func (s *Supervisor) Run(ctx context.Context) error {
	err := s.start(ctx)
	if err == nil {
		err = s.watch(ctx)
	}
	// A stop takes its time also when ctx has ended.
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
		// After the kubelet, because it looks for the Node object with an exponential backoff.
		{"starting kube-proxy", s.startProxy},
	} {
		err := s.progress.Step(step.name, func() error {
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

// watch returns nil when ctx ends, and an error when a program ends.
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
		AdvertiseAddress:  config.Address,
		Port:              config.APIPort,
		ExtraArgs: map[string][]string{controlplane.APIServer: {
			"--allow-privileged=true",
			// The node has no DNS for its name.
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
	path, err := host.FindProgram("containerd")
	if err != nil {
		return err
	}
	if s.containerd, err = s.launch("containerd", path, "--config", s.folder.Config(config.Containerd)); err != nil {
		return err
	}
	return s.await(ctx, s.containerd, func(ctx context.Context) error { return dial(ctx, config.ContainerdSocket) })
}

func (s *Supervisor) startKubelet(ctx context.Context) error {
	if err := errors.Join(s.writeKubeletIdentity(), host.MakeCgroup(s.folder.Cgroup())); err != nil {
		return err
	}
	var err error
	s.kubelet, err = s.launch("kubelet", s.asset("kubelet"),
		"--config", s.folder.Config(config.Kubelet),
		"--kubeconfig", s.folder.Config(config.KubeletIdentity),
		"--hostname-override", config.NodeName,
		"--node-ip", config.Address,
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
	if s.proxy, err = s.launch("kube-proxy", s.asset("kube-proxy"), "--config", s.folder.Config(config.Proxy)); err != nil {
		return err
	}
	return s.await(ctx, s.proxy, func(ctx context.Context) error {
		return healthy(ctx, "http://"+config.ProxyHealth+"/healthz")
	})
}

// stop ends all programs, pods first, so that containers end gracefully and volumes are unmounted.
func (s *Supervisor) stop(ctx context.Context) error {
	var errs []error
	if s.kubelet != nil && s.kubelet.Running() {
		// Not an error of the node: its pods end with it.
		if err := s.progress.Step("ending pods", func() error { return s.drain(ctx) }); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	for _, p := range []*process.Process{s.kubelet, s.proxy} {
		errs = append(errs, s.end(ctx, p))
	}
	if s.control != nil {
		errs = append(errs, s.progress.Step("stopping the control plane", func() error {
			ctx, cancel := context.WithTimeout(ctx, stopTimeout)
			defer cancel()
			return s.control.Stop(ctx)
		}))
	}
	return errors.Join(append(errs, s.end(ctx, s.containerd))...)
}
