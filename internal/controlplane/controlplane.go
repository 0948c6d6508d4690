package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// The names of the components, which are also the names of their programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// Options configure a control plane. Assets and Dir are required.
type Options struct {
	// Assets is the folder with the programs, as returned by FindAssets.
	Assets string
	// Dir is the folder for all files. It is created if it does not exist.
	Dir string
	// ControllerManager and Scheduler start those as well.
	ControllerManager, Scheduler bool
	// BindAddress is the address that the API server listens on, 127.0.0.1 by default. AdvertiseAddress
	// is the address for its clients, BindAddress by default.
	BindAddress, AdvertiseAddress string
	// Port is the API server's port. By default it is the previous one in the same folder, or a free
	// one.
	Port int
	// Durable makes etcd sync each write to disk. Without it, a crash of the machine can lose data, but a
	// crash of a process cannot.
	Durable bool
	// ExtraArgs are additional arguments by component name. They override the defaults.
	ExtraArgs map[string][]string
	// Report is called at the start of each step.
	Report func(step string)
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// The components. ControllerManager and Scheduler are nil if they are not enabled.
	Etcd, APIServer, ControllerManager, Scheduler *Component
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	dir       string
	url       string // of the API server, for its clients
	etcdURL   string
	authority *pki.Authority
	admin     pki.Pair
	ports     *ports
	failed    chan error
}

// Start starts a control plane and waits until it is ready. After an error, no process is running.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	options.BindAddress = cmp.Or(options.BindAddress, "127.0.0.1")
	options.AdvertiseAddress = cmp.Or(options.AdvertiseAddress, options.BindAddress)
	if options.Report == nil {
		options.Report = func(string) {}
	}
	cp, err := prepare(options)
	if err != nil {
		return nil, err
	}
	for _, component := range cp.components() {
		options.Report("starting " + component.Name())
		if err := component.Start(ctx); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: build Kubernetes with 'make kubernetes', or set %s to the folder with the programs", err, AssetsVariable)
			}
			cp.Kill()
			return nil, err
		}
	}
	return cp, nil
}

// prepare writes all files and creates the components, without starting them.
func prepare(options Options) (*ControlPlane, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder for the control plane: %w", err)
	}
	for _, folder := range []string{"pki", "logs", "kubeconfigs"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, fmt.Errorf("creating the folder for the control plane: %w", err)
		}
	}
	// Remove only the logs of earlier starts: callers may have their own logs in the same folder.
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler} {
		if err := os.Remove(logPath(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("removing an old log: %w", err)
		}
	}
	authority, err := pki.Open(filepath.Join(dir, "pki"), time.Now())
	if err != nil {
		return nil, err
	}
	taken, err := takePorts(dir, options)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{
		dir:       dir,
		url:       "https://" + net.JoinHostPort(options.AdvertiseAddress, strconv.Itoa(taken.number(APIServer))),
		etcdURL:   fmt.Sprintf("https://127.0.0.1:%d", taken.number(Etcd)),
		authority: authority,
		ports:     taken,
		failed:    make(chan error, 1),
	}
	if err := cp.writeIdentities(options); err != nil {
		taken.release()
		return nil, err
	}
	if err := cp.makeComponents(options); err != nil {
		taken.release()
		return nil, err
	}
	return cp, nil
}

// components returns the components in their start order.
func (cp *ControlPlane) components() []*Component {
	var all []*Component
	for _, component := range []*Component{cp.Etcd, cp.APIServer, cp.ControllerManager, cp.Scheduler} {
		if component != nil {
			all = append(all, component)
		}
	}
	return all
}

// Failed returns a channel that receives an error when a component ends without being stopped.
func (cp *ControlPlane) Failed() <-chan error { return cp.failed }

// Stop stops all components gracefully, clients first, and kills them when ctx ends before.
func (cp *ControlPlane) Stop(ctx context.Context) error {
	defer cp.ports.release()
	var errs []error
	for _, component := range slices.Backward(cp.components()) {
		errs = append(errs, component.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Kill kills all components.
func (cp *ControlPlane) Kill() {
	defer cp.ports.release()
	for _, component := range cp.components() {
		_ = component.Kill()
	}
}

// spec returns the process of a component.
func (cp *ControlPlane) spec(options Options, name string, args []string) process.Spec {
	return process.Spec{
		Name: name,
		Path: filepath.Join(options.Assets, name),
		Args: append(args, options.ExtraArgs[name]...),
		Dir:  cp.dir,
		Log:  logPath(cp.dir, name),
	}
}

func logPath(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }

// path returns a path in the control plane's folder.
func (cp *ControlPlane) path(elements ...string) string {
	return filepath.Join(append([]string{cp.dir}, elements...)...)
}
