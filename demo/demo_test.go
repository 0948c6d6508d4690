package main_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// programs is a folder with what the demo runs.
func programs(t *testing.T) string {
	t.Helper()
	return rig.Programs(t, "./cmd/sharder", "./examples/webhosting")
}

// demo is a demo that is up, as its user sees it.
type demo struct {
	*WithT
	t       *testing.T
	tmp     string
	process *process.Process
	client  client.Client
	pages   string
	// halts are when instances were killed or paused.
	halts []reconcile
}

var pagesLine = regexp.MustCompile(`The websites are at (\S+/)\.`)

// show starts a demo, and waits until it says that all is ready.
func show(t *testing.T, args ...string) *demo {
	t.Helper()
	d := &demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)}
	d.SetDefaultEventuallyTimeout(patience)
	d.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	d.process = up(t, d.tmp, append([]string{"--programs", programs(t)}, args...)...)
	d.reach(ready(t, d.process))
	d.pages = pagesLine.FindStringSubmatch(d.process.Tail(50))[1]
	return d
}

// reach connects to the demo's cluster.
func (d *demo) reach(kubeconfig string) {
	d.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	d.Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	d.client, err = client.New(config, client.Options{})
	d.Expect(err).NotTo(HaveOccurred())
}

// types runs a command of the demo in another terminal, and returns its output.
func (d *demo) types(args ...string) string { return d.runs("./demo", args...) }

func (d *demo) runs(program string, args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), rig.Build(d.t, program, rig.Race), args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+d.tmp)
	said, _ := cmd.CombinedOutput() // the error is said
	return string(said)
}

const webhostingRing = "webhosting-operator"

func instance(number int) string { return fmt.Sprintf("%s-%d", webhostingRing, number) }

// owners are the websites by name, with whose they are; one that is not ready is nobody's.
func (d *demo) owners() (map[string]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "WebsiteList"})
	if err := d.client.List(context.Background(), list); err != nil {
		return nil, err
	}
	owners := map[string]string{}
	for _, website := range list.Items {
		phase, _, _ := unstructured.NestedString(website.Object, "status", "phase")
		owner := ""
		if phase == "Ready" {
			owner = cmp.Or(website.GetLabels()[shardingv1alpha1.LabelShard(webhostingRing)], "nobody")
		}
		owners[website.GetNamespace()+"/"+website.GetName()] = owner
	}
	return owners, nil
}

// shared waits until the websites are those of the given instances, and each of those has some.
func (d *demo) shared(numbers ...int) {
	d.t.Helper()
	var names []any
	for _, number := range numbers {
		names = append(names, instance(number))
	}
	d.Eventually(func() ([]string, error) {
		owners, err := d.owners()
		var all []string
		for _, owner := range owners {
			all = append(all, owner)
		}
		slices.Sort(all)
		return slices.Compact(all), err
	}).Should(ConsistOf(names...))
}

// holder is who has a Lease of the operator.
func (d *demo) holder(lease string) string {
	found := &coordinationv1.Lease{}
	if err := d.client.Get(context.Background(), client.ObjectKey{Namespace: "webhosting-system", Name: lease}, found); err != nil {
		return ""
	}
	if found.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*found.Spec.HolderIdentity, "_")
	return name
}

// page is what a browser gets.
func (d *demo) page(path string) string {
	answer, err := (&http.Client{Timeout: 5 * time.Second}).Get(d.pages + path)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return answer.Status + "\n" + string(body)
}

// paint changes the colour of a theme.
func (d *demo) paint(colour string) error {
	theme := &unstructured.Unstructured{}
	theme.SetGroupVersionKind(schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Theme"})
	theme.SetName("exciting")
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"color":%q}}`, colour))
	return d.client.Patch(d.t.Context(), theme, patch)
}

// halt kills or pauses an instance, while a theme changes all the time so that it has something in hand. It
// returns what was said.
func (d *demo) halt(name string, args ...string) string {
	d.t.Helper()
	done, painted := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			if err := d.paint([]string{"green", "purple"}[i%2]); err != nil {
				painted <- err
				return
			}
			select {
			case <-done:
				painted <- nil
				return
			default:
			}
		}
	}()
	said := d.types(append(args, name)...)
	// It does nothing from now on, and others have nothing of its own before its Lease has run out.
	d.halts = append(d.halts, reconcile{At: time.Now(), Message: halted, Instance: name})
	close(done)
	d.Expect(<-painted).To(Succeed())
	return said
}

// themed changes a theme, and sees a page change.
func (d *demo) themed() {
	d.t.Helper()
	d.Expect(d.page("")).To(And(ContainSubstring("200 OK"), ContainSubstring(`<a href="/project-bakery/homepage">`)))
	d.Expect(d.page("project-bakery/homepage")).To(And(ContainSubstring("200 OK"), ContainSubstring("darkcyan")))
	d.Expect(d.page("project-bakery/nothing")).To(ContainSubstring("404 Not Found"))
	d.Expect(d.paint("orange")).To(Succeed())
	d.Eventually(func() string { return d.page("project-bakery/homepage") }).Should(ContainSubstring("orange"))
	d.Eventually(d.owners).ShouldNot(ContainElement(""), "all are ready again")
}

// ends interrupts the demo, and sees that nothing is left.
func (d *demo) ends() {
	d.t.Helper()
	children := rig.Descendants(d.t, d.process.PID())
	d.Expect(d.process.Signal(os.Interrupt)).To(Succeed())
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	d.Expect(d.process.Wait(ctx)).To(Succeed(), "Ctrl-C is no failure")
	d.Expect(d.process.Tail(1)).To(HavePrefix("Stopped in"))
	d.Eventually(func() map[int]string { return rig.Alive(children) }).Should(BeEmpty())
	d.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(d.tmp) }).Should(BeEmpty(), "the data was thrown away")
}

// reconcile is a line of an instance's log.
type reconcile struct {
	At        time.Time `json:"ts"`
	Message   string    `json:"msg"`
	Instance  string    `json:"instance"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// halted is noted of an instance that was killed or paused: whatever it had in hand, it does no more.
const halted = "Instance halts"

// history is what the instances have written of their reconciles, and when they were halted, in order.
func (d *demo) history() (all []reconcile) {
	d.t.Helper()
	logs, err := filepath.Glob(filepath.Join(d.tmp, "ringmaster-*", "logs", webhostingRing+"-*.log"))
	d.Expect(err).NotTo(HaveOccurred())
	for _, log := range logs {
		content, err := os.ReadFile(log)
		d.Expect(err).NotTo(HaveOccurred())
		for written := range bytes.Lines(content) {
			line := reconcile{}
			if json.Unmarshal(written, &line) == nil && strings.HasPrefix(line.Message, "Reconcile ") {
				all = append(all, line)
			}
		}
	}
	all = append(all, d.halts...)
	slices.SortStableFunc(all, func(a, b reconcile) int { return a.At.Compare(b.At) })
	return all
}

// overlaps are the reconciles that began while another instance was at work on the same website.
func overlaps(history []reconcile) (found []string) {
	working := map[string]string{}
	for _, line := range history {
		website := line.Namespace + "/" + line.Name
		switch line.Message {
		case "Reconcile begins":
			if other := working[website]; other != "" && other != line.Instance {
				found = append(found, fmt.Sprintf("%s: %s began while %s was at work", website, line.Instance, other))
			}
			working[website] = line.Instance
		case "Reconcile ends":
			if working[website] == line.Instance { // and not another's, after it was paused
				delete(working, website)
			}
		case halted:
			maps.DeleteFunc(working, func(_, at string) bool { return at == line.Instance })
		}
	}
	return found
}

func TestOverlaps(t *testing.T) {
	begins := func(name string) reconcile { return reconcile{Message: "Reconcile begins", Instance: name} }
	ends := func(name string) reconcile { return reconcile{Message: "Reconcile ends", Instance: name} }
	halts := func(name string) reconcile { return reconcile{Message: halted, Instance: name} }
	for name, test := range map[string]struct {
		history []reconcile
		want    int
	}{
		"one after the other":       {[]reconcile{begins("a"), ends("a"), begins("b"), ends("b")}, 0},
		"at the same time":          {[]reconcile{begins("a"), begins("b"), ends("a"), ends("b")}, 1},
		"after a death":             {[]reconcile{begins("a"), halts("a"), begins("b"), ends("b")}, 0},
		"before a death":            {[]reconcile{begins("a"), begins("b"), halts("a"), ends("b")}, 1},
		"after another's death":     {[]reconcile{begins("a"), halts("c"), begins("b")}, 1},
		"one that was paused ends":  {[]reconcile{begins("a"), halts("a"), begins("b"), ends("a"), begins("c")}, 1},
		"one that was paused works": {[]reconcile{halts("a"), begins("b"), begins("a")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if found := overlaps(test.history); len(found) != test.want {
				t.Errorf("found %q", found)
			}
		})
	}
}

// TestDemo does everything that a person may do, in the mode that it has by default.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := show(t, "--websites", "20")
	d.Expect(d.owners()).To(And(HaveLen(20), Not(ContainElement(""))), "all are ready when it says so")
	d.shared(0, 1, 2)
	d.themed()
	d.Expect(d.types("scale", "4")).To(ContainSubstring("Wanted: 4 instances."))
	d.shared(0, 1, 2, 3)
	d.Expect(d.types("websites", "24")).To(ContainSubstring("Created 4 websites"))
	d.Eventually(d.owners).Should(And(HaveLen(24), Not(ContainElement(""))))

	// One dies and one hangs, both in the middle of their work and for longer than their Leases last.
	d.Expect(d.halt(instance(1), "kill", "--away", "1h")).To(ContainSubstring("started again in 1h0m0s"))
	d.Expect(d.halt(instance(0), "pause")).To(ContainSubstring("goes on with 'resume'"))
	d.shared(2, 3)
	d.Expect(d.types("resume", instance(1))).To(ContainSubstring("goes on"))
	d.Expect(d.types("resume", instance(0))).To(ContainSubstring("goes on"))
	d.shared(0, 1, 2, 3)
	d.Eventually(func() string { return d.process.Tail(1000) }).Should(And(
		ContainSubstring(instance(1)+": killed by you"),
		ContainSubstring(instance(0)+": ended: this process has lost its lease"),
		Not(ContainSubstring("\x1b"))))
	d.Expect(overlaps(d.history())).To(BeEmpty())
	d.Expect(len(d.history())).To(BeNumerically(">", 24))

	d.Expect(d.types("stop", instance(3))).To(ContainSubstring("stays away"))
	d.shared(0, 1, 2)
	d.Expect(d.types("kill", instance(3))).To(And(ContainSubstring("start it with 'resume'"), Not(ContainSubstring("Killed"))))
	d.Expect(d.types("kill", "nobody")).To(ContainSubstring("there are: " + instance(0)))
	d.Expect(d.types("kill")).To(ContainSubstring("the INSTANCE is missing, as in 'ringmaster demo kill webhosting-operator-1'; there are: " + instance(0)))
	d.Expect(d.types("scale", "three")).To(ContainSubstring("is not a valid NUMBER"))
	d.ends()
	d.Expect(d.types("scale", "4")).To(ContainSubstring("nothing is up"))
}
