package operator

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/examples/natscluster/agent"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

// Spec is the desired state of a region. In Kubernetes it would be a custom resource; here it is a file.
type Spec struct {
	// Settings are the settings of the coordination.
	coordination.Settings
	// Config is added to the configuration of the servers. A change needs a restart.
	Config string `json:"config,omitempty"`
	// Protocol is the protocol between the servers. Servers with different protocols cannot talk to each other.
	Protocol string `json:"protocol"`
	// Replace maps servers to their replacements.
	Replace map[string]string `json:"replace,omitempty"`
	// Servers are URLs of some servers, of any region.
	Servers []string `json:"servers"`
}

// Main runs the operator of a region, with flags, until the context ends.
func Main(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("operator", flag.ExitOnError)
	name := flags.String("name", "dc1-operator", "name of the operator, the same after a restart")
	agentURL := flags.String("agent", "http://127.0.0.1:4280", "URL of the region's agent")
	store := flags.String("store", "http://127.0.0.1:2379", "URLs of the etcd that the operators share")
	path := flags.String("spec", "spec.json", "file with the spec of the region")
	session := flags.Duration("session", coordination.DefaultSessionDuration, "how long this operator counts as alive after it has died")
	_ = flags.Parse(args) // exits after an error
	const keepAlive = 10 * time.Second
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(*store, ","), DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive})
	if err != nil {
		return fmt.Errorf("connecting to the store: %w", err)
	}
	defer client.Close()
	c, err := coordination.New(coordination.Options{
		Store: etcdstore.New(client, etcdstore.Options{}), System: "nats", Name: *name, SessionDuration: *session,
		Actions: []coordination.Action{Upgrade, Replacement, Restart}, // the most urgent first
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	s := &system{agent: &agent.Client{URL: *agentURL}}
	for changed := c.Changed(ctx); ctx.Err() == nil; {
		result, err := s.reconcile(ctx, c, *path)
		if err != nil && ctx.Err() == nil {
			log.Println(err) // the next call retries
		}
		for _, event := range result.Events {
			log.Printf("%s: %s", event.Reason, event.Message)
		}
		select {
		case <-changed:
		case <-time.After(min(result.RequeueAfter, 200*time.Millisecond)): // no signal announces a changed file
		case <-ctx.Done():
		}
	}
	return nil
}

// reconcile reads the spec and reconciles.
func (s *system) reconcile(ctx context.Context, c *coordination.Coordinator, path string) (*coordination.Result, error) {
	content, err := os.ReadFile(path)
	s.spec = Spec{}
	err = errors.Join(err, json.Unmarshal(content, &s.spec))
	if err == nil && s.nats.app == nil {
		s.nats, err = connect(s.spec.Servers)
	}
	if err != nil {
		return &coordination.Result{RequeueAfter: coordination.DefaultRequeueAfter}, fmt.Errorf("reading %s and connecting to NATS: %w", path, err)
	}
	return c.Reconcile(ctx, s.spec.Settings, s)
}
