package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func TestMain(m *testing.M) {
	if err := etcdclusterv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{
		CRDs:     []string{"examples/etcdcluster/config/crds"},
		Programs: map[string]rig.Program{faultyProgram: runFaulty},
	})
}

const (
	clusterName = "store"
	timeout     = rig.Timeout
	// sessionDuration is short, so that a dead operator is noticed soon, and long enough for a busy machine.
	sessionDuration = 4 * time.Second
)

// fixture is a system of three regions, with real operators, agents and members.
type fixture struct {
	*WithT
	t       testing.TB
	regions []*region
	// cluster is the name of the EtcdCluster in each region, and of the system.
	cluster string
	// store is the store that the operators share, or nil if it is in the system itself.
	store       kv.Store
	writerCount int // number of writers so far
	// membersMayFail is set if tests also disturb members, so that more than one can be down.
	membersMayFail bool
	// pki is the folder with the certificate authority of the nodes, and their certificates.
	pki string
}

// region is a namespace with its operator and agent.
type region struct {
	*rig.Rig
	f             *fixture
	prefix        string
	dir           string
	address       string // of the agent
	etcd          string // path of the binary that the agent runs
	servesMetrics bool   // the operator serves its metrics
	metrics       string // address of the metrics
	agent         *rig.Running
	operator      *rig.Running
	apiProxy      *faultproxy.Proxy // between the operator and its API server
	memberProxy   *faultproxy.Proxy // between the operator and the members of all regions
	args          []string          // of the operator
	clockSkew     time.Duration     // of the operator
	starts        int
	shipped       bool
	logs          []string // of all processes of the operator
}

// options are the options of a fixture.
type options struct {
	mode  etcdclusterv1alpha1.SynchronizationMode
	quiet time.Duration
	args  []string // of all operators
	// store is the store that the operators share, or nil if it is in the system itself.
	store kv.Store
	// prepare is called before the processes of a region are started.
	prepare func(*region)
	// membersMayFail is set if a test also disturbs members, not only operators and networks.
	membersMayFail bool
	// shipped is set to build the operators without the race detector, which costs time.
	shipped bool
	// change changes the specs of the EtcdClusters.
	change func(*etcdclusterv1alpha1.EtcdClusterSpec)
}

// start starts three regions with one member each, and waits until the system has all members.
func start(t testing.TB, o options) *fixture {
	t.Helper()
	w := &fixture{WithT: NewWithT(t), t: t, store: o.store, pki: rig.TempDir(t), cluster: clusterName, membersMayFail: o.membersMayFail}
	w.SetDefaultEventuallyTimeout(timeout)
	w.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	for i := range 3 {
		w.regions = append(w.regions, &region{
			Rig: rig.Shared(t), f: w, shipped: o.shipped, args: slices.Clone(o.args), prefix: fmt.Sprintf("dc%d", i+1), dir: rig.TempDir(t),
			address: fmt.Sprintf("127.0.0.1:%d", rig.ReservePort(t)), etcd: filepath.Join(rig.Assets(t), "etcd"),
		})
	}
	for _, r := range w.regions {
		if o.prepare != nil {
			o.prepare(r)
		}
		r.startAgent()
		r.startOperator()
	}
	w.create(o)
	return w
}

// addSystem creates another system, with the same operators and agents.
func (w *fixture) addSystem(cluster string, o options) *fixture {
	w.t.Helper()
	other := &fixture{WithT: w.WithT, t: w.t, store: w.store, pki: w.pki, cluster: cluster}
	for _, r := range w.regions {
		part := *r
		part.f, part.prefix = other, cluster+"-"+r.prefix
		other.regions = append(other.regions, &part)
	}
	other.create(o)
	return other
}

// create creates the EtcdClusters, and waits until the system has all its members.
func (w *fixture) create(o options) {
	w.t.Helper()
	var seeds []string
	for i, r := range w.regions {
		r.create(i == 0, seeds, o)
		if i == 0 {
			w.Eventually(func() int { return len(r.get().Status.Members) }).Should(BeNumerically(">", 0))
			seeds = append(seeds, r.get().Status.Members[0].ClientURL)
		}
	}
	w.awaitSettled()
}

func (r *region) startAgent() {
	r.f.t.Helper()
	certificate := certify(r.f.t, r.f.pki, r.prefix)
	r.agent = r.Start(r.f.t, rig.Process{
		Name: r.prefix + "-agent", Binary: rig.Build(r.f.t, "./examples/etcdagent"),
		Args: []string{
			"--address=" + r.address, "--dir=" + r.dir, "--region=" + r.prefix, "--etcd=" + r.etcd,
			"--peer-cert=" + certificate + ".crt", "--peer-key=" + certificate + ".key", "--peer-ca=" + filepath.Join(r.f.pki, "ca.crt"),
		},
	})
}

// certify issues the certificate of a node, and returns its path without the extension. It creates the authority
// if the folder has none.
func certify(t testing.TB, folder, node string) string {
	t.Helper()
	g := NewWithT(t)
	authority, err := pki.Open(folder, time.Now())
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := authority.Issue(pki.Identity{User: node, Hosts: []string{"127.0.0.1"}})
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(folder, node)
	g.Expect(pair.Write(path)).To(Succeed())
	return path
}

// startOperator starts the region's operator, or another process of it.
func (r *region) startOperator() {
	r.f.t.Helper()
	r.starts++
	r.metrics = "0"
	if r.servesMetrics {
		r.metrics = fmt.Sprintf("127.0.0.1:%d", rig.ReservePort(r.f.t))
	}
	process := rig.Process{
		Name: fmt.Sprintf("%s-operator-%d", r.prefix, r.starts), ServiceAccount: "etcdcluster-operator", Roles: []string{"examples/etcdcluster/config/rbac"},
		Proxy: r.apiProxy,
		Args: append([]string{
			"--namespace=" + r.Namespace, "--name=" + r.prefix + "-operator", "--agent=http://" + r.address,
			"--session-duration=" + sessionDuration.String(), "--health-address=0", "--metrics-address=" + r.metrics, "--zap-devel",
		}, r.args...),
	}
	switch {
	case r.clockSkew != 0 || r.memberProxy != nil:
		process.Program, process.Env = faultyProgram, r.faultEnv()
	case r.shipped:
		process.Binary = rig.Build(r.f.t, "./examples/etcdcluster")
	default:
		process.Binary = rig.Build(r.f.t, "./examples/etcdcluster", rig.Race)
	}
	r.operator = r.Start(r.f.t, process)
	r.logs = append(r.logs, r.operator.Log)
}

func (r *region) create(bootstrap bool, seeds []string, o options) {
	r.f.t.Helper()
	var prefixes []etcdclusterv1alpha1.Prefix
	for _, each := range r.f.regions {
		prefixes = append(prefixes, etcdclusterv1alpha1.Prefix(each.prefix))
	}
	cluster := &etcdclusterv1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.f.cluster},
		Spec: etcdclusterv1alpha1.EtcdClusterSpec{
			Bootstrap: bootstrap, Seeds: seeds, Members: 1, ProcessGroupIDPrefix: etcdclusterv1alpha1.Prefix(r.prefix),
			Regions: prefixes,
			Args:    map[string]etcdclusterv1alpha1.ArgValue{"unsafe-no-fsync": "true", "snapshot-count": "10000"},
			AutomationOptions: etcdclusterv1alpha1.AutomationOptions{
				SynchronizationMode: o.mode, QuietWindow: &metav1.Duration{Duration: o.quiet},
			},
		},
	}
	if o.change != nil {
		o.change(&cluster.Spec)
	}
	r.f.Expect(r.Client.Create(r.f.t.Context(), cluster)).To(Succeed())
}

func (r *region) get() *etcdclusterv1alpha1.EtcdCluster {
	r.f.t.Helper()
	cluster := &etcdclusterv1alpha1.EtcdCluster{}
	r.f.Expect(r.Client.Get(context.Background(), client.ObjectKey{Namespace: r.Namespace, Name: r.f.cluster}, cluster)).To(Succeed())
	return cluster
}

// edit changes the spec of a region. Operators write only the status.
func (r *region) edit(change func(spec *etcdclusterv1alpha1.EtcdClusterSpec)) {
	r.f.t.Helper()
	r.f.Eventually(func() error {
		cluster := r.get()
		change(&cluster.Spec)
		return r.Client.Update(r.f.t.Context(), cluster)
	}).Should(Succeed())
}

// editAll changes the specs of all regions, as a pipeline does.
func (w *fixture) editAll(change func(spec *etcdclusterv1alpha1.EtcdClusterSpec)) {
	w.t.Helper()
	for _, r := range w.regions {
		r.edit(change)
	}
}

// setArg returns a change of an argument for which all members have to be restarted.
func setArg(value string) func(*etcdclusterv1alpha1.EtcdClusterSpec) {
	return func(spec *etcdclusterv1alpha1.EtcdClusterSpec) {
		spec.Args["snapshot-count"] = etcdclusterv1alpha1.ArgValue(value)
	}
}

// replaceMembers requests the replacement of the present members of a region.
func (r *region) replaceMembers() {
	r.f.t.Helper()
	now := r.get().Status.Members
	r.edit(func(spec *etcdclusterv1alpha1.EtcdClusterSpec) {
		spec.Replace = nil
		for _, m := range now {
			spec.Replace = append(spec.Replace, m.ID)
		}
	})
}

// awaitSettled waits until all regions match their specs, and no action is in progress.
func (w *fixture) awaitSettled(regions ...*region) {
	w.t.Helper()
	if regions == nil {
		regions = w.regions
	}
	w.Eventually(func(g Gomega) {
		for _, r := range regions {
			cluster := r.get()
			g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation), r.prefix)
			for condition, want := range map[string]metav1.ConditionStatus{
				etcdclusterv1alpha1.ConditionReady: metav1.ConditionTrue, etcdclusterv1alpha1.ConditionProgressing: metav1.ConditionFalse,
			} {
				got := findCondition(cluster.Status.Conditions, condition)
				g.Expect(got.Status).To(Equal(want), "%s: %s: %s: %s; waiting: %s", r.prefix, condition, got.Reason, got.Message, cluster.Status.Waiting)
			}
		}
		if view := w.view(); view != nil {
			g.Expect(view.Intent).To(BeNil())
			for set, members := range view.Sets {
				g.Expect(members).To(BeEmpty(), set)
			}
		}
	}).Should(Succeed())
}

func findCondition(conditions []metav1.Condition, kind string) metav1.Condition {
	for _, c := range conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// endpoints returns the client URLs of all members.
func (w *fixture) endpoints() []string {
	var all []string
	for _, r := range w.regions {
		for _, m := range r.get().Status.Members {
			all = append(all, m.ClientURL)
		}
	}
	return all
}

// currentState returns the state of the system, read by the test itself.
func (w *fixture) currentState() *system.State {
	w.t.Helper()
	connection, err := system.Dial(w.endpoints())
	w.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	var state *system.State
	w.Eventually(func() (err error) { state, err = connection.State(context.Background()); return err }).Should(Succeed())
	return state
}

// voterNames returns the names of the voters.
func (w *fixture) voterNames() []string {
	var names []string
	for _, m := range w.currentState().Voters() {
		names = append(names, m.Name)
	}
	return names
}

// raftTerm returns the Raft term of the system, which grows with every leader.
func (w *fixture) raftTerm() uint64 { return highestTerm(w.currentState()) }

func highestTerm(state *system.State) uint64 {
	var highest uint64
	for _, m := range state.Members {
		highest = max(highest, m.Term)
	}
	return highest
}

// memberPIDs returns the process IDs of the members.
func (w *fixture) memberPIDs() map[string]int64 {
	pids := map[string]int64{}
	for _, r := range w.regions {
		for _, m := range r.get().Status.Members {
			pids[string(m.ID)] = m.PID
		}
	}
	return pids
}

// newClient returns a client with the endpoints of all members.
func (w *fixture) newClient() *clientv3.Client {
	w.t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: w.endpoints(), Logger: zap.NewNop(), DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// view returns the state of the coordination, or nil if the store does not answer.
func (w *fixture) view() *coordination.View {
	if w.store != nil {
		view, err := coordination.ReadView(context.Background(), w.store, "", w.cluster)
		if err != nil {
			return nil
		}
		return view
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: w.endpoints(), Logger: zap.NewNop()})
	if err != nil {
		return nil
	}
	defer c.Close()
	view, err := coordination.ReadView(context.Background(), etcdstore.New(c, etcdstore.Options{}), "", w.cluster)
	if err != nil {
		return nil
	}
	return view
}

// logLines returns the lines of all operators' logs that contain a text.
func (w *fixture) logLines(containing string) []string {
	var found []string
	for _, r := range w.regions {
		found = append(found, w.operatorLogLines(r, containing)...)
	}
	return found
}

// operatorLogLines returns such lines of all processes of a region's operator.
func (w *fixture) operatorLogLines(r *region, containing string) []string {
	var found []string
	for _, log := range r.logs {
		content, err := os.ReadFile(log)
		w.Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, containing) {
				found = append(found, r.prefix+": "+line)
			}
		}
	}
	return found
}

// countLogLines returns how many times a log contains a text.
func (w *fixture) countLogLines(log, containing string) int {
	w.t.Helper()
	content, err := os.ReadFile(log)
	w.Expect(err).NotTo(HaveOccurred())
	return strings.Count(string(content), containing)
}

// restartedMembers returns the members with another process.
func restartedMembers(before, after map[string]int64) []string {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if before[id] != after[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
