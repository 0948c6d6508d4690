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
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Options say what to run, and where.
type Options struct {
	Setup Setup
	// Instances of the operator, each with so many Workers, or as many as it likes.
	Instances, Workers int
	// WorkTime is how long the reconciler waits in each reconcile, as for an API far away.
	WorkTime time.Duration
	// Config is the administrator's access to the cluster. Plane is set if it is our own.
	Config *rest.Config
	Plane  *controlplane.ControlPlane
	// Host is this machine as the API server can reach it.
	Host string
	// Programs is the folder with our programs, Dir where files are written.
	Programs, Dir string
	// Seed decides what happens by chance.
	Seed uint64
	// Report is told what happens.
	Report func(what string, wrong bool)
}

// Fleet is a setup that runs.
type Fleet struct {
	options Options
	stage   *cluster.Cluster
	crew    *supervisor.Supervisor
	random  *rand.Rand
	reader  string // a token of somebody who may read the sharder's metrics

	mu        sync.Mutex
	endpoints map[string]string // where processes say something of themselves
	ports     []*process.Port
	alive     map[string]int // the PIDs of processes that were seen to run
	halts     []Halt
	next      int // the number of the next instance
}

// Halt is when the process of an instance has ended, however that was: what it was doing then has ended too.
type Halt struct {
	Instance string
	At       time.Time
}

const (
	// grace is how long a process may take to end: a shard hands its objects over before.
	grace = 30 * time.Second
	// startLimit is how long the start may take.
	startLimit = 3 * time.Minute
)

// Start installs what the setup needs, and starts it. Ended early, it leaves no process behind.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	f := &Fleet{options: options, random: rand.New(rand.NewPCG(options.Seed, 2)), endpoints: map[string]string{}, alive: map[string]int{}}
	f.crew = supervisor.New(supervisor.Options{
		Report: func(name, what string, wrong bool) { options.Report(name+" "+what, wrong) },
		Removed: func(string) {}, Changed: f.seeDeaths, GracePeriod: grace,
	})
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it took longer than %s", startLimit))
	defer cancel()
	if err := f.connect(); err != nil {
		return nil, err
	}
	if options.Plane == nil {
		if err := f.vacant(starting); err != nil {
			return nil, err
		}
	}
	if err := f.start(starting); err != nil {
		if options.Plane == nil { // nothing of ours stays in somebody's cluster
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

// Scheme has all kinds that there are in an experiment.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	made := runtime.NewScheme()
	utilruntime.Must(errors.Join(scheme.AddToScheme(made), webhostingv1alpha1.AddToScheme(made), shardingv1alpha1.AddToScheme(made)))
	return made
})

func (f *Fleet) connect() error {
	config := rest.CopyConfig(f.options.Config)
	config.QPS = -1
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reaching the cluster: %w", err)
	}
	administrator, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("reaching the cluster: %w", err)
	}
	f.stage = &cluster.Cluster{
		Options: cluster.Options{Dir: f.options.Dir, Programs: f.options.Programs}, Client: administrator, Clientset: clientset,
	}
	if err := os.MkdirAll(filepath.Dir(f.stage.Log(operator)), 0o700); err != nil {
		return fmt.Errorf("making a folder for the logs: %w", err)
	}
	return nil
}

// Kubernetes is the version of the cluster, as far as it says so.
func (f *Fleet) Kubernetes() string {
	version, err := f.stage.Clientset.Discovery().ServerVersion()
	if err != nil {
		return "unknown"
	}
	return version.GitVersion
}

// InstanceName is the name of an instance.
func InstanceName(number int) string { return Ring + "-" + strconv.Itoa(number) }

// instances are the names of those that are wanted.
func (f *Fleet) instances() []string {
	var names []string
	for _, member := range f.crew.Processes() {
		if member.Name != Sharder && member.KeepRunning {
			names = append(names, member.Name)
		}
	}
	return names
}

// running are the names of those that run.
func (f *Fleet) running() []string {
	return slices.DeleteFunc(f.instances(), func(name string) bool { return !f.Runs(name) })
}

// Runs tells whether the process of an instance runs.
func (f *Fleet) Runs(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive[name] != 0
}

// seeDeaths notes which processes have ended since the last look.
func (f *Fleet) seeDeaths() {
	f.mu.Lock() // first, so that looks come one after the other
	defer f.mu.Unlock()
	running := map[string]int{}
	for _, member := range f.crew.Processes() {
		if member.PID != 0 {
			running[member.Name] = member.PID
		}
	}
	for name, pid := range f.alive {
		if running[name] != pid {
			f.halts = append(f.halts, Halt{name, time.Now()})
		}
	}
	f.alive = running
}

// Halts are the processes of instances that have ended until now.
func (f *Fleet) Halts() []Halt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.halts)
}

// Stop ends everything in good order, and by force when ctx ends before.
func (f *Fleet) Stop(ctx context.Context) {
	f.crew.Close(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, port := range f.ports {
		port.Release()
	}
	f.ports = nil
}

// Kill ends everything at once.
func (f *Fleet) Kill() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	f.Stop(ended)
}
