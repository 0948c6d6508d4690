package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// SharderOptions configure a replica of the external sharder.
type SharderOptions struct {
	// Name is "sharder" by default. All replicas of a test have the ServiceAccount "sharder".
	Name string
	// Roles are roles in addition to config/rbac, usually for the objects of rings.
	Roles []string
	// RolesPerRing leaves out config/open-rings: Roles have the permissions for the Leases and webhooks of each ring.
	RolesPerRing bool
	// Config is YAML that is merged into its configuration file. By default, the replicas of a test elect a
	// leader in the test's namespace, and the webhook of each is called by URL.
	Config string
	// Shipped runs it as released: without the race detector, with JSON logs.
	Shipped bool
	// Binary is the path of another build of the sharder, such as one of an earlier commit.
	Binary string
	// Args, Env and Proxy are as in Process. Args override the other arguments.
	Args, Env []string
	Proxy     *faultproxy.Proxy
}

// Sharder is a replica of the external sharder, with its ports on 127.0.0.1.
type Sharder struct {
	*Running
	Webhook, Metrics, Health int
}

// StartSharder starts a replica of the external sharder. It does not wait until the replica is ready: use
// Probe.
func (r *Rig) StartSharder(t testing.TB, options SharderOptions) *Sharder {
	t.Helper()
	if options.Name == "" {
		options.Name = "sharder"
	}
	s := &Sharder{Webhook: ReservePort(t), Metrics: ReservePort(t), Health: ReservePort(t)}
	args := []string{"--config", r.configureSharder(t, s, options.Config), "--webhook-port", strconv.Itoa(s.Webhook)}
	var build []BuildOption
	if !options.Shipped {
		args, build = append(args, "--development"), append(build, Race)
	}
	if options.Binary == "" {
		options.Binary = Build(t, "./cmd/sharder", build...)
	}
	roles := []string{"config/rbac"}
	if !options.RolesPerRing {
		roles = append(roles, "config/open-rings")
	}
	s.Running = r.Start(t, Process{
		Name: options.Name, ServiceAccount: "sharder", Proxy: options.Proxy, Env: options.Env,
		Binary: options.Binary,
		Args:   append(args, options.Args...),
		Roles:  append(roles, options.Roles...),
	})
	return s
}

// ReservePort reserves a free port of 127.0.0.1 until the test ends.
func ReservePort(t testing.TB) int {
	t.Helper()
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return port.Number
}

// configureSharder writes the configuration file of a replica, and returns its path.
func (r *Rig) configureSharder(t testing.TB, s *Sharder, changes string) string {
	t.Helper()
	config := parse(t, fmt.Sprintf(`
apiVersion: config.sharding.timebertt.dev/v1alpha1
kind: SharderConfig
leaderElection: {leaderElect: true, resourceNamespace: %q}
health: {bindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "127.0.0.1:%d"}
webhook: {config: {clientConfig: {url: "https://127.0.0.1:%d"}}}
`, r.Namespace, s.Health, s.Metrics, s.Webhook))
	merge(config, parse(t, changes))
	content, err := json.Marshal(config) // which is YAML as well
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(TempDir(t), "config.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func parse(t testing.TB, content string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(content), &values); err != nil {
		t.Fatalf("reading the sharder's configuration: %v\n%s", err, content)
	}
	return values
}

// merge merges all values of change into config.
func merge(config, change map[string]any) {
	for key, value := range change {
		below, isMap := value.(map[string]any)
		if there, wasMap := config[key].(map[string]any); isMap && wasMap {
			merge(there, below)
		} else {
			config[key] = value
		}
	}
}

// Probe requests a path of the health endpoint as a kubelet does, and returns the status, or 0 without a
// response.
func (s *Sharder) Probe(path string) int {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d%s", s.Health, path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}
