package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringmaster-project/ringmaster/examples/natscluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/natscluster/operator"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

const (
	// quiet is short here: nothing is decided by people.
	quiet = time.Second
	// session is how long an operator that was killed counts as alive.
	session = 3 * time.Second
	// streams is how many there are, each with a replica in every region.
	streams = 6
)

// program is built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "natscluster-")
	if err != nil {
		return "", err
	}
	if err := process.RemoveOnExit(folder); err != nil {
		return "", err
	}
	path := filepath.Join(folder, "natscluster")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the example: %w: %s", err, out)
	}
	return path, nil
})

// region is an agent with its servers, and the operator.
type region struct {
	name, spec string
	agent      *agent.Client
	wants      operator.Spec
	operators  []*process.Process
}

// world is three regions, a store of their own, and a client.
type world struct {
	*WithT
	t       testing.TB
	store   string
	regions []*region
	sys     *nats.Conn
	app     *nats.Conn
	js      jetstream.JetStream
}

// begin starts three regions with one server each.
func begin(t testing.TB, mode coordination.Mode) *world {
	t.Helper()
	w := &world{WithT: NewWithT(t), t: t, store: rig.Etcd(t, 1)[0].Endpoint}
	w.SetDefaultEventuallyTimeout(rig.Timeout)
	w.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	const regions, ports = 3, 9
	var agents, seeds, urls, names []string
	all := make([][]string, regions)
	for i := range regions {
		for range ports {
			all[i] = append(all[i], strconv.Itoa(w.port()))
		}
		urls = append(urls, "nats://127.0.0.1:"+all[i][0])
		seeds = append(seeds, "127.0.0.1:"+all[i][1])
		agents = append(agents, net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port())))
		names = append(names, fmt.Sprintf("dc%d", i+1))
	}
	for i, name := range names {
		folder := rig.TempDir(t)
		r := &region{name: name, spec: filepath.Join(folder, "spec.json"), agent: &agent.Client{URL: "http://" + agents[i]}}
		r.wants = operator.Spec{Protocol: "1", Servers: urls, Settings: coordination.Settings{
			Mode: mode, Prefix: name, Expected: names, Policy: coordination.Policy{Quiet: quiet},
		}}
		w.regions = append(w.regions, r)
		w.start(name+"-agent", "agent", "--region="+name, "--listen="+agents[i], "--data-dir="+folder,
			"--ports="+strings.Join(all[i], ","), "--seeds="+strings.Join(seeds, ","),
			"--peers=http://"+strings.Join(agents, ",http://"))
	}
	w.connect(urls)
	for i := range streams {
		w.Eventually(func() error {
			_, err := w.js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
				Name: fmt.Sprintf("S%d", i), Subjects: []string{fmt.Sprintf("s%d.>", i)}, Replicas: 3,
			})
			return err
		}).Should(Succeed())
	}
	for _, r := range w.regions {
		w.edit(r, func(*operator.Spec) {})
		w.operate(r)
	}
	w.settled()
	return w
}

func (w *world) port() int {
	w.t.Helper()
	port, err := process.ReservePort("127.0.0.1")
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(port.Release)
	return port.Number
}

// start runs the example's program until the test ends.
func (w *world) start(name string, args ...string) *process.Process {
	w.t.Helper()
	path, err := program()
	w.Expect(err).NotTo(HaveOccurred())
	p, err := process.Start(process.Spec{Name: name, Path: path, Args: args, Log: filepath.Join(rig.TempDir(w.t), "log")})
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() {
		w.Expect(p.Kill()).To(Succeed())
		if w.t.Failed() {
			const lines = 40
			w.t.Logf("--- %s wrote:\n%s\n---", name, p.Tail(lines))
		}
	})
	return p
}

// operate starts a process of a region's operator.
func (w *world) operate(r *region) *process.Process {
	w.t.Helper()
	p := w.start(r.name+"-operator", "operator", "--name="+r.name+"-operator", "--agent="+r.agent.URL, "--store=http://"+w.store,
		"--spec="+r.spec, "--session="+session.String())
	r.operators = append(r.operators, p)
	return p
}

// connect makes the client's connections. It comes back after 100 ms when its server is restarted.
func (w *world) connect(urls []string) {
	w.t.Helper()
	dial := func(user string) *nats.Conn {
		c, err := nats.Connect(strings.Join(urls, ","), nats.UserInfo(user, user), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
			nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		w.Expect(err).NotTo(HaveOccurred())
		w.t.Cleanup(c.Close)
		return c
	}
	w.sys, w.app = dial("sys"), dial("app")
	js, err := jetstream.New(w.app)
	w.Expect(err).NotTo(HaveOccurred())
	w.js = js
}

// edit changes what is wanted of a region.
func (w *world) edit(r *region, change func(*operator.Spec)) {
	w.t.Helper()
	change(&r.wants)
	content, err := json.Marshal(r.wants)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(os.WriteFile(r.spec+".new", content, 0o600)).To(Succeed())
	w.Expect(os.Rename(r.spec+".new", r.spec)).To(Succeed())
}

func (w *world) editAll(change func(*operator.Spec)) {
	w.t.Helper()
	for _, r := range w.regions {
		w.edit(r, change)
	}
}

// settled waits until all servers are as they are wanted, and up to date, and nothing is being done.
func (w *world) settled() {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		for _, r := range w.regions {
			members, err := r.agent.Members(w.t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members).To(HaveLen(1))
			for _, m := range members {
				g.Expect(r.wants.Replace).NotTo(HaveKey(m.Name))
				g.Expect(m.Ready).To(BeTrue(), m.Name)
				g.Expect(m.Config).To(Equal(r.wants.Config))
				g.Expect(m.Protocol).To(Equal(r.wants.Protocol))
			}
		}
		view, err := w.look()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(view.Intent).To(BeNil())
		g.Expect(view.Lock).To(BeNil())
		g.Expect(view.Pending(operator.Restart)).To(BeEmpty())
		for i := range streams {
			stream, err := w.js.Stream(w.t.Context(), fmt.Sprintf("S%d", i))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(stream.CachedInfo().Cluster.Replicas).To(HaveLen(2))
			for _, replica := range stream.CachedInfo().Cluster.Replicas {
				g.Expect(replica.Current && !replica.Offline).To(BeTrue(), "%s of %s", replica.Name, stream.CachedInfo().Config.Name)
			}
		}
	}).Should(Succeed())
}

// look reads what the operators tell each other.
func (w *world) look() (*coordination.View, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{w.store}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return coordination.ReadView(w.t.Context(), etcdstore.New(c, etcdstore.Options{}), "", "nats")
}

// events are what happened to the servers of all regions, in order, since a time.
func (w *world) events(since time.Time) (all []agent.Event) {
	w.t.Helper()
	for _, r := range w.regions {
		events, err := r.agent.Events(w.t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		for _, event := range events {
			if event.Time.After(since) {
				all = append(all, event)
			}
		}
	}
	return sorted(all)
}
