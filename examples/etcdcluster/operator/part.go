package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"k8s.io/utils/clock"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

// storeTimeout is how long one request to the store may take.
const storeTimeout = 3 * time.Second

// part is what an operator has for one EtcdCluster from one round to the next.
type part struct {
	system systemOf
	// client is what the store uses, if it is in the system itself.
	client *clientv3.Client
	store  coordination.Store
	c      *coordination.Coordinator
	// policy is the one that c was made with.
	policy coordination.Policy
	// task is what this operator carries out at the moment.
	task *task
	// since is when the present step of it was seen for the first time.
	since struct {
		step string
		at   time.Time
	}
	clock clock.PassiveClock
	stop  func()
}

// systemOf is what an operator asks of the system, and does to it.
type systemOf interface {
	State(ctx context.Context) (*system.State, error)
	AddLearner(ctx context.Context, peerURL string) (system.ID, error)
	Promote(ctx context.Context, id system.ID) error
	MoveLeader(ctx context.Context, from, to system.ID) error
	Remove(ctx context.Context, id system.ID) error
	SetSeeds(seeds []string)
	SetCluster(cluster system.ID)
	Endpoints() []string
	Close() error
}

// connect finds the system, and the others. Before there is a system there is nobody to talk to.
func (r *reconciler) connect(p *part, cluster *etcdclusterv1alpha1.EtcdCluster, seeds []string) error {
	if len(seeds) == 0 {
		return nil
	}
	if p.system == nil {
		connection, err := system.Dial(seeds, r.options.dialing()...)
		if err != nil {
			return err
		}
		p.system = connection
		if known := cluster.Status.ClusterID; known != "" {
			id, err := system.ParseID(known)
			if err != nil {
				return fmt.Errorf("understanding status.clusterID: %w", err)
			}
			connection.SetCluster(id)
		}
	}
	p.system.SetSeeds(seeds)
	if p.store == nil {
		if err := r.openStore(p); err != nil {
			return err
		}
	}
	if p.client != nil {
		if endpoints := p.system.Endpoints(); !slices.Equal(endpoints, p.client.Endpoints()) {
			p.client.SetEndpoints(endpoints...)
		}
	}
	return r.join(p, cluster)
}

func (r *reconciler) openStore(p *part) error {
	if r.options.Store != nil {
		p.store = r.options.Store
		return nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: p.system.Endpoints(), Logger: zap.NewNop(),
		DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		// By default who was cut off for long may wait for two minutes more when it no longer is.
		DialOptions: append(r.options.dialing(), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: soon, Multiplier: 1.6, Jitter: 0.2, MaxDelay: later},
			MinConnectTimeout: storeTimeout,
		})),
	})
	if err != nil {
		return fmt.Errorf("connecting to the store: %w", err)
	}
	// A member that hangs gets its share of the requests, and must not hold up a round for long.
	p.client, p.store = client, etcdstore.New(client, etcdstore.Options{Timeout: storeTimeout})
	return nil
}

// join makes this operator's part in the coordination, anew when people have changed how patient it is.
func (r *reconciler) join(p *part, cluster *etcdclusterv1alpha1.EtcdCluster) error {
	options := &cluster.Spec.AutomationOptions
	policy := coordination.Policy{Quiet: options.Quiet(), Missing: coordination.Missing(options.Missing), After: options.After()}
	if p.c != nil && p.policy == policy {
		return nil
	}
	if p.c != nil {
		p.policy = policy
		return p.c.SetPolicies(policies(policy))
	}
	last := coordination.Settings{}
	if status := cluster.Status.Coordination; status != nil {
		last.Mode, last.Prefix = coordination.Mode(status.Mode), string(status.Prefix)
		for _, name := range status.Denied {
			last.Denied = append(last.Denied, string(name))
		}
	}
	c, err := coordination.New(coordination.Options{
		Store: p.store, System: cluster.SystemName(), Name: r.options.Name, Last: last,
		Session: r.options.Session, Policies: policies(policy), Clock: r.options.Clock,
	})
	if err != nil {
		return err
	}
	p.c, p.policy = c, policy
	return r.follow(p, cluster)
}

func policies(policy coordination.Policy) map[coordination.Action]coordination.Policy {
	all := map[coordination.Action]coordination.Policy{}
	for _, action := range coordination.Actions() {
		all[action] = policy
	}
	return all
}

func (p *part) close() error {
	var errs []error
	if p.stop != nil {
		p.stop()
	}
	if p.client != nil {
		errs = append(errs, p.client.Close())
	}
	if p.system != nil {
		errs = append(errs, p.system.Close())
	}
	return errors.Join(errs...)
}
