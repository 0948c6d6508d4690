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
	// quiet is short, because the tests make all changes at once.
	quiet = time.Second
	// sessionDuration is how long a killed operator counts as alive.
	sessionDuration = 3 * time.Second
	// streams is the number of streams. Each has a replica in every region.
	streams = 6
)

// program builds the program once for all tests.
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

// region is an agent with its servers, and an operator.
type region struct {
	name, spec string
	agent      *agent.Client
	desired    operator.Spec
	operators  []*process.Process
}

// fixture is three regions with a store, and the connections of a client.
type fixture struct {
	*WithT
	t       testing.TB
	store   string
	regions []*region
	sys     *nats.Conn
	app     *nats.Conn
	js      jetstream.JetStream
}

// start starts three regions with one server each.
func start(t testing.TB, mode coordination.Mode) *fixture {
	t.Helper()
	w := &fixture{WithT: NewWithT(t), t: t, store: rig.Etcd(t, 1)[0].Endpoint}
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
		r.desired = operator.Spec{Protocol: "1", Servers: urls, Settings: coordination.Settings{
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
		w.startOperator(r)
	}
	w.awaitSettled()
	return w
}

func (w *fixture) port() int {
	w.t.Helper()
	port, err := process.ReservePort("127.0.0.1")
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(port.Release)
	return port.Number
}

// start runs the program until the test ends.
func (w *fixture) start(name string, args ...string) *process.Process {
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

// startOperator starts a process of a region's operator.
func (w *fixture) startOperator(r *region) *process.Process {
	w.t.Helper()
	p := w.start(r.name+"-operator", "operator", "--name="+r.name+"-operator", "--agent="+r.agent.URL, "--store=http://"+w.store,
		"--spec="+r.spec, "--session="+sessionDuration.String())
	r.operators = append(r.operators, p)
	return p
}

// connect opens the client's connections. They reconnect 100 ms after a restart of their server.
func (w *fixture) connect(urls []string) {
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

// edit changes the spec of a region.
func (w *fixture) edit(r *region, change func(*operator.Spec)) {
	w.t.Helper()
	change(&r.desired)
	content, err := json.Marshal(r.desired)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(os.WriteFile(r.spec+".new", content, 0o600)).To(Succeed())
	w.Expect(os.Rename(r.spec+".new", r.spec)).To(Succeed())
}

func (w *fixture) editAll(change func(*operator.Spec)) {
	w.t.Helper()
	for _, r := range w.regions {
		w.edit(r, change)
	}
}

// awaitSettled waits until all servers match their specs and are up to date, and no action is in progress.
func (w *fixture) awaitSettled() {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		for _, r := range w.regions {
			members, err := r.agent.Members(w.t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members).To(HaveLen(1))
			for _, m := range members {
				g.Expect(r.desired.Replace).NotTo(HaveKey(m.Name))
				g.Expect(m.Ready).To(BeTrue(), m.Name)
				g.Expect(m.Config).To(Equal(r.desired.Config))
				g.Expect(m.Protocol).To(Equal(r.desired.Protocol))
			}
		}
		view, err := w.readView()
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

// readView reads the state of the coordination.
func (w *fixture) readView() (*coordination.View, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{w.store}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return coordination.ReadView(w.t.Context(), etcdstore.New(c, etcdstore.Options{}), "", "nats")
}

// events returns the events of the servers of all regions since a time, in order.
func (w *fixture) events(since time.Time) (all []agent.Event) {
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
