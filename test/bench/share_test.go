package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

var sites = flag.Int("websites", 3000, "how many Websites the sample operator has to care for")

// target is what a shard of three may need of what a single instance needs.
const target = 0.45

// BenchmarkShare compares what one of three shards of the sample operator needs with what a single
// instance needs that leads: the same Websites are created, and then their Theme is changed.
func BenchmarkShare(b *testing.B) {
	for b.Loop() {
		single := load(b, "lead", "single")[0]
		shards := load(b, "shard", "a", "b", "c")
		b.Logf("single instance: %s", single)
		for _, shard := range shards {
			b.Logf("shard %s: %s", shard.name, shard)
		}
		f := &fixture{b: b}
		for _, of := range []struct {
			name, unit string
			limit      float64 // or none
			get        func(*needs) float64
		}{
			{"memory in use by Go, after a collection", "x-in-use", target, func(n *needs) float64 { return n.inUse }},
			{"received bytes", "x-received", target, func(n *needs) float64 { return n.received }},
			// With what Go keeps for garbage and for later, and with the program's file, which is the same for all.
			{"resident memory", "x-resident", 0, func(n *needs) float64 { return n.resident }},
			{"resident memory without the program's file", "x-anonymous", 0, func(n *needs) float64 { return n.anonymous }},
			{"resident memory, peak", "x-peak", 0, func(n *needs) float64 { return n.peak }},
		} {
			// The one with the largest share has to live with its limits too.
			most := slices.MaxFunc(shards, func(a, b *needs) int { return int(of.get(a) - of.get(b)) })
			share, reference := of.get(most)/of.get(single), "to compare"
			if of.limit > 0 {
				reference = fmt.Sprint("at most ", of.limit)
			}
			f.figure(fmt.Sprintf("one of three shards / single leader with %d Websites: %s", *sites, of.name), share, of.unit, reference)
			if of.limit > 0 && share > of.limit {
				b.Errorf("%s: %.3f is more than %g", of.name, share, of.limit)
			}
		}
	}
}

// needs are what an instance needed, in bytes.
type needs struct {
	name     string
	websites int
	// resident is what it has in memory, and anonymous the part of it that is not the program's file, which all
	// instances on a machine share. Peak is the most that was resident.
	resident, anonymous, peak float64
	inUse, received           float64
}

func (n *needs) String() string {
	const mebi = 1 << 20
	return fmt.Sprintf("%d Websites, %.1f MiB resident (%.1f without the file, %.1f at most), %.1f MiB in use by Go, %.1f MiB received",
		n.websites, n.resident/mebi, n.anonymous/mebi, n.peak/mebi, n.inUse/mebi, n.received/mebi)
}

// operator is the sample operator with its cluster.
type operator struct {
	*fixture
	mode      string
	instances []*instance
}

type instance struct {
	*rig.Running
	name              string
	metrics, profiles int
	network           *faultproxy.Proxy
}

const manifests = "examples/webhosting/config/"

// load lets the instances, built as they are shipped, care for the Websites, and tells what that took.
func load(b *testing.B, mode string, names ...string) []*needs {
	b.Helper()
	r := rig.Private(b, rig.Options{CRDs: []string{"config/crds", manifests + "crds"}})
	defer r.Kill() // the next one needs the memory
	o := &operator{fixture: &fixture{Rig: r, WithT: NewWithT(b), b: b}, mode: mode}
	o.SetDefaultEventuallyTimeout(2 * patience)
	o.SetDefaultEventuallyPollingInterval(time.Second)
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Namespace}}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"webhosting.timebertt.dev/project":"true"}}}`))
	o.Expect(o.Client.Patch(b.Context(), project, label)).To(Succeed()) // nobody else writes to it
	// A benchmark's own words come at its end, and this takes minutes.
	say := func(step string) { fmt.Fprintf(os.Stderr, "%s, %d Websites: %s\n", mode, *sites, step) }
	say("starting instances")
	if mode == "shard" {
		o.shard()
	}
	for _, name := range names {
		o.start(name)
	}
	say("creating the Websites")
	o.createAll()
	say("changing their Theme")
	o.paint("darkcyan")
	o.Eventually(func() int { return o.pages("darkcyan") }).Should(Equal(*sites))
	say("measuring")
	var all []*needs
	for _, i := range o.instances {
		all = append(all, o.measure(i))
	}
	for _, i := range o.instances {
		o.Expect(i.Kill()).To(Succeed())
	}
	return all
}

// shard starts a sharder and tells it what to spread.
func (o *operator) shard() {
	o.b.Helper()
	found, err := manifest.Read(os.DirFS("../../"+manifests), "ring/ring.yaml")
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(unstructured.SetNestedStringSlice(found[0].Object, []string{o.Namespace}, "spec", "shardNamespaces")).To(Succeed())
	o.Expect(manifest.Apply(o.b.Context(), o.Client, "bench", found...)).To(Succeed())
	sharder := o.StartSharder(o.b, rig.SharderOptions{Roles: []string{manifests + "ring/sharder-role.yaml"}, Shipped: true})
	o.Eventually(func() int { return sharder.Probe("/readyz") }).Should(Equal(http.StatusOK))
}

// start runs an instance and waits until it takes its part.
func (o *operator) start(name string) {
	o.b.Helper()
	health := rig.ReservePort(o.b)
	i := &instance{name: name, metrics: rig.ReservePort(o.b), profiles: rig.ReservePort(o.b), network: o.Proxy(o.b)}
	i.Running = o.Start(o.b, rig.Process{
		Name: name, ServiceAccount: "webhosting-operator", Roles: []string{manifests + "rbac"}, Proxy: i.network,
		Binary: rig.Build(o.b, "./examples/webhosting"),
		Args: []string{
			"--mode=" + o.mode,
			fmt.Sprint("--health-address=127.0.0.1:", health), fmt.Sprint("--metrics-address=127.0.0.1:", i.metrics),
			fmt.Sprint("--pprof-address=127.0.0.1:", i.profiles),
		},
	})
	o.instances = append(o.instances, i)
	o.Eventually(func() int { status, _ := ask(health, "/readyz"); return status }).Should(Equal(http.StatusOK))
}

// ask gets something from a port of this machine.
func ask(port int, path string) (int, []string) {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	var lines []string
	for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return response.StatusCode, lines
}

var website = schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"}

// createAll makes the Websites and waits until each is Ready, which is when all that belongs to it is there.
func (o *operator) createAll() {
	o.b.Helper()
	o.paint("orchid")
	o.parallel(*sites, 16, func(i int) error {
		made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theme": "theme"}}}
		made.SetGroupVersionKind(website)
		made.SetNamespace(o.Namespace)
		made.SetName(fmt.Sprintf("website-%06d", i))
		made.SetLabels(map[string]string{"skip-workload": "true"})
		return o.Client.Create(context.Background(), made)
	})
	o.Eventually(func(g Gomega) int {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(website)
		g.Expect(o.Client.List(context.Background(), list, client.InNamespace(o.Namespace))).To(Succeed())
		ready := 0
		for i := range list.Items {
			if phase, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "phase"); phase == "Ready" {
				ready++
			}
		}
		return ready
	}).WithPolling(5 * time.Second).Should(Equal(*sites))
}

// paint makes the Theme, or gives it another color.
func (o *operator) paint(color string) {
	o.b.Helper()
	theme := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": color, "fontFamily": "Menlo"}}}
	theme.SetGroupVersionKind(website.GroupVersion().WithKind("Theme"))
	theme.SetName("theme")
	// Nobody else writes it.
	o.Expect(o.Client.Apply(o.b.Context(), client.ApplyConfigurationFromUnstructured(theme), client.FieldOwner("bench"))).To(Succeed())
}

// pages counts the pages of a color.
func (o *operator) pages(color string) int {
	list := &corev1.ConfigMapList{}
	o.Expect(o.Client.List(context.Background(), list, client.InNamespace(o.Namespace))).To(Succeed())
	n := 0
	for i := range list.Items {
		if strings.Contains(list.Items[i].Data["index.html"], color) {
			n++
		}
	}
	return n
}

// measure waits until an instance has nothing more to do, lets Go collect its garbage, and looks at what is left.
func (o *operator) measure(i *instance) *needs {
	o.b.Helper()
	const kibi, leases = 1 << 10, 100 << 10
	received := func() int64 { _, received := i.network.Traffic(); return received }
	last := int64(0)
	o.Eventually(func() int64 {
		before := last
		last = received()
		return last - before
	}).WithPolling(5*time.Second).Should(BeNumerically("<", leases), "it is told of nothing more")
	found := &needs{name: i.name, websites: o.websites(i), received: float64(last), peak: o.peak(i.Running) * kibi * kibi}
	for range 2 { // what is pooled for another use goes with the second collection
		status, _ := ask(i.profiles, "/debug/pprof/heap?gc=1")
		o.Expect(status).To(Equal(http.StatusOK))
	}
	found.inUse = o.metric(i, "go_memstats_heap_alloc_bytes")
	found.resident, found.anonymous = o.status(i.Running, "VmRSS")*kibi*kibi, o.status(i.Running, "RssAnon")*kibi*kibi
	return found
}

// metric is what an instance says of itself.
func (o *operator) metric(i *instance, name string) float64 {
	o.b.Helper()
	_, lines := ask(i.metrics, "/metrics")
	for _, line := range lines {
		if value, found := strings.CutPrefix(line, name+" "); found {
			number, err := strconv.ParseFloat(value, 64)
			o.Expect(err).NotTo(HaveOccurred())
			return number
		}
	}
	o.b.Fatalf("no %s", name)
	return 0
}

// websites counts those of an instance.
func (o *operator) websites(i *instance) int {
	o.b.Helper()
	if o.mode == "lead" {
		return *sites
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(website)
	o.Expect(o.Client.List(context.Background(), list, client.InNamespace(o.Namespace),
		client.MatchingLabels{"shard.alpha.sharding.timebertt.dev/webhosting-operator": i.name})).To(Succeed())
	return len(list.Items)
}
