package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// The roles in the manifests: those of the operator, and those of the in-process sharder.
const (
	operatorRoles = "examples/webhosting/config/rbac"
	sharderRoles  = "examples/webhosting/config/in-process/sharder-role.yaml"
)

// process starts the program.
func (f *fixture) process(name string, mode shard.Mode, args ...string) *rig.Running {
	f.t.Helper()
	granted := []string{operatorRoles}
	if mode == shard.ModeInProcess || mode == shard.ModeSharder {
		granted = append(granted, sharderRoles)
	}
	return f.Start(f.t, rig.Process{
		Name: name, ServiceAccount: "webhosting-" + string(mode),
		Binary: rig.Build(f.t, "./examples/webhosting", rig.Race),
		Args: append([]string{
			"--mode=" + string(mode), "--lease-duration=3s", "--renew-deadline=2s", "--retry-period=500ms",
			"--health-address=0", "--metrics-address=0", "--zap-log-level=debug",
		}, args...),
		Roles: granted,
	})
}

// entry is a line of the log of the program.
type entry struct {
	Time      time.Time `json:"ts"`
	Message   string    `json:"msg"`
	Instance  string    `json:"instance"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	ID        string    `json:"id"`
}

// entries returns the lines of the log about reconciles.
func (f *fixture) entries(p *rig.Running) (found []entry) {
	f.t.Helper()
	file, err := os.Open(p.Log)
	f.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	lines := bufio.NewScanner(file)
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	for lines.Scan() {
		read := entry{}
		if json.Unmarshal(lines.Bytes(), &read) == nil && (read.Message == begins || read.Message == ends) {
			found = append(found, read)
		}
	}
	f.Expect(lines.Err()).NotTo(HaveOccurred())
	return found
}

// TestShard runs the program as a shard with the roles in its manifests. The test labels the
// Website in place of a sharder.
func TestShard(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	p := f.process("shard-0", shard.ModeShard)
	f.theme("exciting", "darkcyan")
	label := shardingv1alpha1.LabelShard("webhosting-operator")
	site := f.website("homepage", "exciting", withoutWorkload, func(w *webhostingv1alpha1.Website) { metav1.SetMetaDataLabel(&w.ObjectMeta, label, "shard-0") })
	other := f.website("other", "exciting", withoutWorkload)
	f.waitForReady(site)
	for kind, object := range f.children(f, site).all() {
		f.Expect(object.GetLabels()).To(HaveKeyWithValue(label, "shard-0"), kind)
	}

	var logged []entry
	f.Eventually(func() []entry { logged = f.entries(p); return logged }).ShouldNot(BeEmpty())
	f.Eventually(func() int { logged = f.entries(p); return len(logged) % 2 }).Should(BeZero())
	for i, e := range logged {
		f.Expect(e.Instance).To(Equal("shard-0"))
		f.Expect([]string{e.Namespace, e.Name}).To(Equal([]string{f.Namespace, "homepage"}))
		f.Expect(e.ID).NotTo(BeEmpty())
		f.Expect(e.Time).NotTo(BeZero())
		f.Expect(e.Message).To(Equal([]string{begins, ends}[i%2]), "one after the other")
	}
	f.Expect(refresh(f, other).Status.Phase).To(BeEmpty(), "the unassigned Website is not reconciled")

	f.Expect(p.Terminate()).To(Succeed())
	f.Expect(p.Wait(t.Context())).To(Succeed())
	lease := &coordinationv1.Lease{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: "shard-0"}, lease)).To(Succeed())
	f.Expect(*lease.Spec.HolderIdentity).To(BeEmpty())
}

// TestFailover runs two instances, and kills the leader.
func TestFailover(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	running := map[string]*rig.Running{}
	for _, name := range []string{"one", "two"} {
		running[name] = f.process(name, shard.ModeLead)
	}
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(site)
	leader, other := "one", "two"
	if len(f.entries(running["two"])) > 0 {
		leader, other = "two", "one"
	}
	f.Expect(f.entries(running[other])).To(BeEmpty(), "only the leader reconciles")

	f.Expect(running[leader].Kill()).To(Succeed())
	late := f.website("late", "exciting", withoutWorkload)
	f.waitForReady(late)
	f.Expect(f.entries(running[other])).NotTo(BeEmpty())
	killed, next := f.entries(running[leader]), f.entries(running[other])
	f.Expect(next[0].Time).To(BeTemporally(">", killed[len(killed)-1].Time))
}

// TestInProcess runs three instances with the in-process sharder.
func TestInProcess(t *testing.T) {
	const n = 24
	f := setUp(t, rig.Private(t, rig.Options{CRDs: []string{crds}})) // without the CRDs of Ringmaster
	project := &corev1.Namespace{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.Namespace}, project)).To(Succeed())
	change(f, project, func(n *corev1.Namespace) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, webhostingv1alpha1.LabelProject, "true")
	})
	f.theme("exciting", "darkcyan")
	for i := range 3 {
		f.process(fmt.Sprintf("shard-%d", i), shard.ModeInProcess)
	}
	var sites []*webhostingv1alpha1.Website
	for i := range n {
		sites = append(sites, f.website(fmt.Sprintf("site-%d", i), "exciting", withoutWorkload))
	}
	label := shardingv1alpha1.LabelShard("webhosting-operator")
	f.Eventually(func(g Gomega) {
		shares := map[string]int{}
		for _, site := range sites {
			g.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(site), site)).To(Succeed())
			g.Expect(site.Status.Phase).To(Equal(webhostingv1alpha1.PhaseReady))
			shares[site.Labels[label]]++
			for kind, object := range f.children(g, site).all() {
				g.Expect(object.GetLabels()).To(HaveKeyWithValue(label, site.Labels[label]), kind)
			}
		}
		g.Expect(shares).To(HaveLen(3))
	}).Should(Succeed())
}

// TestNotInstalled starts the program on a cluster without the CRDs.
func TestNotInstalled(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{}))
	p := f.process("early", shard.ModeAlone)
	f.Expect(p.Wait(t.Context())).NotTo(Succeed())
	f.Expect(p.Tail(1)).To(And(ContainSubstring("kind Theme is not installed"), ContainSubstring("kubectl apply -k examples/webhosting/config/crds")))
}
