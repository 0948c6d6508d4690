package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Options configure a Fleet.
type Options struct {
	Setup Setup
	// Instances is the number of instances of the operator, Workers the number of workers of each; 0 is the operator's default.
	Instances, Workers int
	// WorkTime is how long each reconcile waits, as for a remote API.
	WorkTime time.Duration
	// Config is an administrator's access to the cluster. Plane is set if the experiment has started the cluster.
	Config *rest.Config
	Plane  *controlplane.ControlPlane
	// Host is the address at which the API server reaches this machine.
	Host string
	// Programs is the folder with the programs to run, Dir the folder for files.
	Programs, Dir string
	// Seed determines all random choices.
	Seed uint64
	// Report is called for each event of a process. wrong is set if it was not intended.
	Report func(message string, wrong bool)
	// Killing is called immediately before an instance is killed. It may be nil.
	Killing func(instance string)
}

// Fleet is a running setup.
type Fleet struct {
	options    Options
	cluster    *cluster.Cluster
	supervisor *supervisor.Supervisor
	random     *rand.Rand
	reader     string // a token that may read the sharder's metrics

	mu        sync.Mutex
	endpoints map[string]string // by process: the URL of its metrics
	profiles  map[string]string // by instance: the URL of its profiles
	ports     []*process.Port
	alive     map[string]int // by process: its PID, while it runs
	exits     []Exit
	next      int // the number of the next instance
}

// Exit is the end of an instance's process, for any reason. Its reconciles have ended with it.
type Exit struct {
	Instance string
	At       time.Time
}

const (
	// grace is how long a process may take to stop: a shard hands its objects over before.
	grace = 30 * time.Second
	// startLimit is how long starting may take.
	startLimit = 3 * time.Minute
)

// Start installs the prerequisites of the setup, and starts its processes. If it fails, it leaves no process behind.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	f := &Fleet{options: options, random: rand.New(rand.NewPCG(options.Seed, 2)), endpoints: map[string]string{}, profiles: map[string]string{}, alive: map[string]int{}}
	f.supervisor = supervisor.New(supervisor.Options{
		Report:  func(name, message string, wrong bool) { options.Report(name+" "+message, wrong) },
		Removed: func(string) {}, Changed: f.updateAlive, GracePeriod: grace,
	})
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("timed out after %s", startLimit))
	defer cancel()
	if err := f.connect(); err != nil {
		return nil, err
	}
	if options.Plane == nil {
		if err := f.checkUnused(starting); err != nil {
			return nil, err
		}
	}
	if err := f.start(starting); err != nil {
		if options.Plane == nil { // leave nothing in an existing cluster
			clearing, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
			defer cancel()
			err = errors.Join(err, f.Clear(clearing))
		}
		f.Kill()
		return nil, fmt.Errorf("starting the setup %s: %w", options.Setup, err)
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	if err := f.install(ctx); err != nil {
		return err
	}
	if f.options.Setup == External {
		if err := f.startSharder(ctx); err != nil {
			return err
		}
	}
	for range f.options.Instances {
		if err := f.join(); err != nil {
			return err
		}
	}
	return f.awaitReady(ctx)
}

// Scheme returns the scheme with all kinds of an experiment.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(errors.Join(scheme.AddToScheme(s), webhostingv1alpha1.AddToScheme(s), shardingv1alpha1.AddToScheme(s)))
	return s
})

func (f *Fleet) connect() error {
	config := rest.CopyConfig(f.options.Config)
	config.QPS = -1
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	administrator, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	f.cluster = &cluster.Cluster{
		Options: cluster.Options{Dir: f.options.Dir, Programs: f.options.Programs}, Client: administrator, Clientset: clientset,
	}
	if err := os.MkdirAll(filepath.Dir(f.cluster.Log(operator)), 0o700); err != nil {
		return fmt.Errorf("creating a folder for the logs: %w", err)
	}
	return nil
}

// Kubernetes returns the version of the cluster.
func (f *Fleet) Kubernetes() string {
	version, err := f.cluster.Clientset.Discovery().ServerVersion()
	if err != nil {
		return "unknown"
	}
	return version.GitVersion
}

// InstanceName returns the name of an instance.
func InstanceName(number int) string { return Ring + "-" + strconv.Itoa(number) }

// instances returns the names of the instances that should run.
func (f *Fleet) instances() []string {
	var names []string
	for _, member := range f.supervisor.Processes() {
		if member.Name != Sharder && member.KeepRunning {
			names = append(names, member.Name)
		}
	}
	return names
}

// running returns the names of the instances that run.
func (f *Fleet) running() []string {
	return slices.DeleteFunc(f.instances(), func(name string) bool { return !f.Runs(name) })
}

// Runs reports whether the process of an instance runs.
func (f *Fleet) Runs(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive[name] != 0
}

// updateAlive records the processes that have exited since its last call.
func (f *Fleet) updateAlive() {
	f.mu.Lock() // first, so that concurrent calls do not record an older state
	defer f.mu.Unlock()
	running := map[string]int{}
	for _, member := range f.supervisor.Processes() {
		if member.PID != 0 {
			running[member.Name] = member.PID
		}
	}
	for name, pid := range f.alive {
		if running[name] != pid {
			f.exits = append(f.exits, Exit{name, time.Now()})
		}
	}
	f.alive = running
}

// Exits returns the exits of all instances so far.
func (f *Fleet) Exits() []Exit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.exits)
}

// Stop stops all processes gracefully, and kills those that still run when ctx is done.
func (f *Fleet) Stop(ctx context.Context) {
	f.supervisor.Close(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, port := range f.ports {
		port.Release()
	}
	f.ports = nil
}

// Kill kills all processes.
func (f *Fleet) Kill() {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	f.Stop(done)
}
