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
	patience    = rig.Timeout
	// session is short, so that a dead operator is missed soon, and long enough for a busy machine.
	session = 4 * time.Second
)

// world is a system of three regions, with real operators, agents and members.
type world struct {
	*WithT
	t       testing.TB
	regions []*region
	// cluster is the name of the EtcdCluster in each region, and of the system.
	cluster string
	// store is where the operators meet, if that is not the system itself.
	store   kv.Store
	writers int // how many there were
	// accidents happen to members too: more than one may be down.
	accidents bool
	// pki is the folder with the authority of the regions' nodes, and their certificates.
	pki string
}

// region is a namespace with its operator and agent.
type region struct {
	*rig.Rig
	w        *world
	prefix   string
	dir      string
	address  string // of the agent
	etcd     string // what the agent runs
	measured bool   // the operator serves its metrics
	metrics  string // where it does
	agent    *rig.Running
	operator *rig.Running
	network  *faultproxy.Proxy // between the operator and its API server
	road     *faultproxy.Proxy // between the operator and the members of all regions
	args     []string          // of the operator
	clockOff time.Duration     // of the operator
	starts   int
	shipped  bool
	logs     []string // of all processes of the operator
}

// options are those of a world.
type options struct {
	mode  etcdclusterv1alpha1.SynchronizationMode
	quiet time.Duration
	args  []string // of all operators
	// store is where they meet, if it is not the system itself.
	store kv.Store
	// prepare is for what has to be there before the processes of a region are started.
	prepare func(*region)
	// accidents happen to members too, not only to operators and networks.
	accidents bool
	// shipped is for operators that are built as they are shipped: a race detector costs time.
	shipped bool
	// change is for what else is different in the EtcdClusters.
	change func(*etcdclusterv1alpha1.EtcdClusterSpec)
}

// begin starts three regions of one member each, and waits until the system has them all.
func begin(t testing.TB, o options) *world {
	t.Helper()
	w := &world{WithT: NewWithT(t), t: t, store: o.store, pki: rig.TempDir(t), cluster: clusterName, accidents: o.accidents}
	w.SetDefaultEventuallyTimeout(patience)
	w.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	for i := range 3 {
		w.regions = append(w.regions, &region{
			Rig: rig.Shared(t), w: w, shipped: o.shipped, args: slices.Clone(o.args), prefix: fmt.Sprintf("dc%d", i+1), dir: rig.TempDir(t),
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

// beside makes another system, with the operators and agents of one that is there.
func (w *world) beside(cluster string, o options) *world {
	w.t.Helper()
	other := &world{WithT: w.WithT, t: w.t, store: w.store, pki: w.pki, cluster: cluster}
	for _, r := range w.regions {
		part := *r
		part.w, part.prefix = other, cluster+"-"+r.prefix
		other.regions = append(other.regions, &part)
	}
	other.create(o)
	return other
}

// create makes the EtcdClusters, and waits until the system has all its members.
func (w *world) create(o options) {
	w.t.Helper()
	var seeds []string
	for i, r := range w.regions {
		r.create(i == 0, seeds, o)
		if i == 0 {
			w.Eventually(func() int { return len(r.get().Status.Members) }).Should(BeNumerically(">", 0))
			seeds = append(seeds, r.get().Status.Members[0].ClientURL)
		}
	}
	w.settled()
}

func (r *region) startAgent() {
	r.w.t.Helper()
	certificate := certify(r.w.t, r.w.pki, r.prefix)
	r.agent = r.Start(r.w.t, rig.Process{
		Name: r.prefix + "-agent", Binary: rig.Build(r.w.t, "./examples/etcdagent"),
		Args: []string{
			"--address=" + r.address, "--dir=" + r.dir, "--region=" + r.prefix, "--etcd=" + r.etcd,
			"--peer-cert=" + certificate + ".crt", "--peer-key=" + certificate + ".key", "--peer-ca=" + filepath.Join(r.w.pki, "ca.crt"),
		},
	})
}

// certify makes the certificate of a node, and returns its path without the ending. An authority is made if there is none in the folder.
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
	r.w.t.Helper()
	r.starts++
	r.metrics = "0"
	if r.measured {
		r.metrics = fmt.Sprintf("127.0.0.1:%d", rig.ReservePort(r.w.t))
	}
	process := rig.Process{
		Name: fmt.Sprintf("%s-operator-%d", r.prefix, r.starts), ServiceAccount: "etcdcluster-operator", Roles: []string{"examples/etcdcluster/config/rbac"},
		Proxy: r.network,
		Args: append([]string{
			"--namespace=" + r.Namespace, "--name=" + r.prefix + "-operator", "--agent=http://" + r.address,
			"--session-duration=" + session.String(), "--health-address=0", "--metrics-address=" + r.metrics, "--zap-devel",
		}, r.args...),
	}
	switch {
	case r.clockOff != 0 || r.road != nil:
		process.Program, process.Env = faultyProgram, r.faults()
	case r.shipped:
		process.Binary = rig.Build(r.w.t, "./examples/etcdcluster")
	default:
		process.Binary = rig.Build(r.w.t, "./examples/etcdcluster", rig.Race)
	}
	r.operator = r.Start(r.w.t, process)
	r.logs = append(r.logs, r.operator.Log)
}

func (r *region) create(bootstrap bool, seeds []string, o options) {
	r.w.t.Helper()
	var prefixes []etcdclusterv1alpha1.Prefix
	for _, each := range r.w.regions {
		prefixes = append(prefixes, etcdclusterv1alpha1.Prefix(each.prefix))
	}
	cluster := &etcdclusterv1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.w.cluster},
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
	r.w.Expect(r.Client.Create(r.w.t.Context(), cluster)).To(Succeed())
}

func (r *region) get() *etcdclusterv1alpha1.EtcdCluster {
	r.w.t.Helper()
	cluster := &etcdclusterv1alpha1.EtcdCluster{}
	r.w.Expect(r.Client.Get(context.Background(), client.ObjectKey{Namespace: r.Namespace, Name: r.w.cluster}, cluster)).To(Succeed())
	return cluster
}

// edit changes the spec of a region. Operators write only the status.
func (r *region) edit(change func(spec *etcdclusterv1alpha1.EtcdClusterSpec)) {
	r.w.t.Helper()
	r.w.Eventually(func() error {
		cluster := r.get()
		change(&cluster.Spec)
		return r.Client.Update(r.w.t.Context(), cluster)
	}).Should(Succeed())
}

// editAll changes all regions, as a pipeline does.
func (w *world) editAll(change func(spec *etcdclusterv1alpha1.EtcdClusterSpec)) {
	w.t.Helper()
	for _, r := range w.regions {
		r.edit(change)
	}
}

// setArg gives all members an argument that they have to be restarted for.
func setArg(value string) func(*etcdclusterv1alpha1.EtcdClusterSpec) {
	return func(spec *etcdclusterv1alpha1.EtcdClusterSpec) {
		spec.Args["snapshot-count"] = etcdclusterv1alpha1.ArgValue(value)
	}
}

// replace gives up the members that a region has now.
func (r *region) replace() {
	r.w.t.Helper()
	now := r.get().Status.Members
	r.edit(func(spec *etcdclusterv1alpha1.EtcdClusterSpec) {
		spec.Replace = nil
		for _, m := range now {
			spec.Replace = append(spec.Replace, m.ID)
		}
	})
}

// settled waits until all regions have what they want, and nothing is being done.
func (w *world) settled(of ...*region) {
	w.t.Helper()
	if of == nil {
		of = w.regions
	}
	w.Eventually(func(g Gomega) {
		for _, r := range of {
			cluster := r.get()
			g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation), r.prefix)
			for condition, want := range map[string]metav1.ConditionStatus{
				etcdclusterv1alpha1.ConditionReady: metav1.ConditionTrue, etcdclusterv1alpha1.ConditionProgressing: metav1.ConditionFalse,
			} {
				got := find(cluster.Status.Conditions, condition)
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

func find(conditions []metav1.Condition, kind string) metav1.Condition {
	for _, c := range conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// endpoints are where the members answer.
func (w *world) endpoints() []string {
	var all []string
	for _, r := range w.regions {
		for _, m := range r.get().Status.Members {
			all = append(all, m.ClientURL)
		}
	}
	return all
}

// state is how the system is, as nobody's operator sees it.
func (w *world) state() *system.State {
	w.t.Helper()
	connection, err := system.Dial(w.endpoints())
	w.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	var state *system.State
	w.Eventually(func() (err error) { state, err = connection.State(context.Background()); return err }).Should(Succeed())
	return state
}

// names are those of the voters.
func (w *world) names() []string {
	var names []string
	for _, m := range w.state().Voters() {
		names = append(names, m.Name)
	}
	return names
}

// term is the system's: it grows with every leader.
func (w *world) term() uint64 { return termOf(w.state()) }

func termOf(state *system.State) uint64 {
	var highest uint64
	for _, m := range state.Members {
		highest = max(highest, m.Term)
	}
	return highest
}

// pids are those of the members' processes.
func (w *world) pids() map[string]int64 {
	pids := map[string]int64{}
	for _, r := range w.regions {
		for _, m := range r.get().Status.Members {
			pids[string(m.ID)] = m.PID
		}
	}
	return pids
}

// connect returns a client that knows all members.
func (w *world) connect() *clientv3.Client {
	w.t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: w.endpoints(), Logger: zap.NewNop(), DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// view is what the operators say, if the store answers.
func (w *world) view() *coordination.View {
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

// lines are those of all operators' logs that contain something.
func (w *world) lines(containing string) []string {
	var found []string
	for _, r := range w.regions {
		found = append(found, w.linesOf(r, containing)...)
	}
	return found
}

// linesOf are those of a region's operator, of all its processes.
func (w *world) linesOf(r *region, containing string) []string {
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

// linesIn is how many lines of a log contain something.
func (w *world) linesIn(log, containing string) int {
	w.t.Helper()
	content, err := os.ReadFile(log)
	w.Expect(err).NotTo(HaveOccurred())
	return strings.Count(string(content), containing)
}

// changed are the members whose process is another one.
func changed(before, after map[string]int64) []string {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if before[id] != after[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
