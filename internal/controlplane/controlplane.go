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

// Options say what to run and where. Assets and Dir have to be set.
type Options struct {
	// Assets is the folder with the programs, as FindAssets finds it.
	Assets string
	// Dir is the folder for everything that is written. It is made when it is missing.
	Dir string
	// ControllerManager and Scheduler run those as well.
	ControllerManager, Scheduler bool
	// BindAddress is where the API server listens, 127.0.0.1 by default. AdvertiseAddress is the
	// address at which others reach it, BindAddress by default.
	BindAddress, AdvertiseAddress string
	// Port is the API server's port. By default it is the one that it had on the same folder
	// before, or a free one.
	Port int
	// Durable makes etcd wait for the disk with each write. Without it a crash of the machine can
	// lose data; a crash of any process cannot.
	Durable bool
	// ExtraArgs are more arguments by the component's name. The last one of a kind wins.
	ExtraArgs map[string][]string
	// Report is told each step as it begins.
	Report func(step string)
}

// ControlPlane is a control plane that was started.
type ControlPlane struct {
	// The parts. ControllerManager and Scheduler are nil when they were not asked for.
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

// Start starts a control plane and waits until it is ready. Ended early, it leaves no process
// behind.
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
				err = fmt.Errorf("%w: build Kubernetes with 'make kubernetes', or name the folder that has it with %s", err, AssetsVariable)
			}
			cp.Kill()
			return nil, err
		}
	}
	return cp, nil
}

// prepare writes all files and makes the components, without starting them.
func prepare(options Options) (*ControlPlane, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder for the control plane: %w", err)
	}
	for _, folder := range []string{"pki", "logs", "kubeconfigs"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, fmt.Errorf("making the folder for the control plane: %w", err)
		}
	}
	// The logs are those of this start: what an earlier one wrote would be taken for its words. Others
	// may keep theirs in the same folder.
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

// components returns the parts in the order in which they start.
func (cp *ControlPlane) components() []*Component {
	var all []*Component
	for _, component := range []*Component{cp.Etcd, cp.APIServer, cp.ControllerManager, cp.Scheduler} {
		if component != nil {
			all = append(all, component)
		}
	}
	return all
}

// Failed receives why a component ended although nobody stopped it.
func (cp *ControlPlane) Failed() <-chan error { return cp.failed }

// Stop ends all components in good order, clients first, and by force when ctx ends before.
func (cp *ControlPlane) Stop(ctx context.Context) error {
	defer cp.ports.release()
	var errs []error
	for _, component := range slices.Backward(cp.components()) {
		errs = append(errs, component.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Kill ends all components at once.
func (cp *ControlPlane) Kill() {
	defer cp.ports.release()
	for _, component := range cp.components() {
		_ = component.Kill()
	}
}

// spec is what to run for a component.
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

// path is a path in the control plane's folder.
func (cp *ControlPlane) path(elements ...string) string {
	return filepath.Join(append([]string{cp.dir}, elements...)...)
}
