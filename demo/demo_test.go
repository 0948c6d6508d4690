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
	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// programs returns a folder with the programs that the demo runs.
func programs(t *testing.T) string {
	t.Helper()
	return rig.Programs(t, "./cmd/sharder", "./examples/webhosting")
}

// demo is a running demo.
type demo struct {
	*WithT
	t       *testing.T
	tmp     string
	process *process.Process
	client  client.Client
	pages   string
	// interruptions has the times at which instances were killed or paused.
	interruptions []logLine
}

var pagesLine = regexp.MustCompile(`The websites are at (\S+/)\.`)

// startDemo starts a demo, and waits until it is ready.
func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	d := &demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)}
	d.SetDefaultEventuallyTimeout(timeout)
	d.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	d.process = up(t, d.tmp, append([]string{"--programs", programs(t)}, args...)...)
	d.connect(ready(t, d.process))
	d.pages = pagesLine.FindStringSubmatch(d.process.Tail(50))[1]
	return d
}

// connect connects to the demo's cluster.
func (d *demo) connect(kubeconfig string) {
	d.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	d.Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	d.client, err = client.New(config, client.Options{})
	d.Expect(err).NotTo(HaveOccurred())
}

// command runs a command of the demo, and returns its output.
func (d *demo) command(args ...string) string { return d.runProgram("./demo", args...) }

func (d *demo) runProgram(program string, args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), rig.Build(d.t, program, rig.Race), args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+d.tmp)
	output, _ := cmd.CombinedOutput() // has the error message
	return string(output)
}

const webhostingRing = "webhosting-operator"

func instance(number int) string { return fmt.Sprintf("%s-%d", webhostingRing, number) }

// owners returns the shard of each website, or an empty string if the website is not ready.
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
			owner = cmp.Or(website.GetLabels()[shardingv1alpha1.LabelShard(webhostingRing)], "unassigned")
		}
		owners[website.GetNamespace()+"/"+website.GetName()] = owner
	}
	return owners, nil
}

// waitForOwners waits until the websites are owned by the given instances, and each of them owns
// some.
func (d *demo) waitForOwners(numbers ...int) {
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

// holder returns the instance that holds a Lease of the operator.
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

// page returns the status and the body of a page.
func (d *demo) page(path string) string {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(d.pages + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return response.Status + "\n" + string(body)
}

// setThemeColour changes the colour of a theme.
func (d *demo) setThemeColour(colour string) error {
	theme := &unstructured.Unstructured{}
	theme.SetGroupVersionKind(schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Theme"})
	theme.SetName("exciting")
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"color":%q}}`, colour))
	return d.client.Patch(d.t.Context(), theme, patch)
}

// interruptDuringReconciles kills or pauses an instance while a theme changes continuously, so that
// reconciles are in progress. It returns the output of the command.
func (d *demo) interruptDuringReconciles(name string, args ...string) string {
	d.t.Helper()
	done, changed := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			if err := d.setThemeColour([]string{"green", "purple"}[i%2]); err != nil {
				changed <- err
				return
			}
			select {
			case <-done:
				changed <- nil
				return
			default:
			}
		}
	}()
	output := d.command(append(args, name)...)
	// The instance does nothing from now on, and other instances do not own its objects before its
	// Lease has expired.
	d.interruptions = append(d.interruptions, logLine{At: time.Now(), Message: interrupted, Instance: name})
	close(done)
	d.Expect(<-changed).To(Succeed())
	return output
}

// changeTheme changes a theme, and waits until a page changes.
func (d *demo) changeTheme() {
	d.t.Helper()
	d.Expect(d.page("")).To(And(ContainSubstring("200 OK"), ContainSubstring(`<a href="/project-bakery/homepage">`)))
	d.Expect(d.page("project-bakery/homepage")).To(And(ContainSubstring("200 OK"), ContainSubstring("darkcyan")))
	d.Expect(d.page("project-bakery/nothing")).To(ContainSubstring("404 Not Found"))
	d.Expect(d.setThemeColour("orange")).To(Succeed())
	d.Eventually(func() string { return d.page("project-bakery/homepage") }).Should(ContainSubstring("orange"))
	d.Eventually(d.owners).ShouldNot(ContainElement(""), "all websites are ready again")
}

// stop interrupts the demo, and expects that no processes and files are left.
func (d *demo) stop() {
	d.t.Helper()
	children := rig.Descendants(d.t, d.process.PID())
	d.Expect(d.process.Signal(os.Interrupt)).To(Succeed())
	ctx, cancel := context.WithTimeout(d.t.Context(), timeout)
	defer cancel()
	d.Expect(d.process.Wait(ctx)).To(Succeed(), "the exit code after Ctrl-C is 0")
	d.Expect(d.process.Tail(1)).To(HavePrefix("Stopped in"))
	d.Eventually(func() map[int]string { return rig.Alive(children) }).Should(BeEmpty())
	d.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(d.tmp) }).Should(BeEmpty(), "the data was deleted")
}

// logLine is a line of the log of an instance.
type logLine struct {
	At        time.Time `json:"ts"`
	Message   string    `json:"msg"`
	Instance  string    `json:"instance"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// interrupted is the message of a line that the test adds when it kills or pauses an instance,
// which ends its reconciles.
const interrupted = "Instance interrupted"

// history returns the reconciles in the logs of the instances, and the interruptions, ordered by
// time.
func (d *demo) history() (all []logLine) {
	d.t.Helper()
	logs, err := filepath.Glob(filepath.Join(d.tmp, "ringmaster-*", "logs", webhostingRing+"-*.log"))
	d.Expect(err).NotTo(HaveOccurred())
	for _, log := range logs {
		content, err := os.ReadFile(log)
		d.Expect(err).NotTo(HaveOccurred())
		for written := range bytes.Lines(content) {
			line := logLine{}
			if json.Unmarshal(written, &line) == nil && strings.HasPrefix(line.Message, "Reconcile ") {
				all = append(all, line)
			}
		}
	}
	all = append(all, d.interruptions...)
	slices.SortStableFunc(all, func(a, b logLine) int { return a.At.Compare(b.At) })
	return all
}

// overlaps returns the reconciles that began while another instance reconciled the same website.
func overlaps(history []logLine) (found []string) {
	working := map[string]string{}
	for _, line := range history {
		website := line.Namespace + "/" + line.Name
		switch line.Message {
		case "Reconcile begins":
			if other := working[website]; other != "" && other != line.Instance {
				found = append(found, fmt.Sprintf("%s: %s began during a reconcile of %s", website, line.Instance, other))
			}
			working[website] = line.Instance
		case "Reconcile ends":
			if working[website] == line.Instance { // it may be that of another instance after a pause
				delete(working, website)
			}
		case interrupted:
			maps.DeleteFunc(working, func(_, at string) bool { return at == line.Instance })
		}
	}
	return found
}

func TestOverlaps(t *testing.T) {
	begins := func(name string) logLine { return logLine{Message: "Reconcile begins", Instance: name} }
	ends := func(name string) logLine { return logLine{Message: "Reconcile ends", Instance: name} }
	interrupt := func(name string) logLine { return logLine{Message: interrupted, Instance: name} }
	for name, test := range map[string]struct {
		history []logLine
		want    int
	}{
		"one after the other":       {[]logLine{begins("a"), ends("a"), begins("b"), ends("b")}, 0},
		"at the same time":          {[]logLine{begins("a"), begins("b"), ends("a"), ends("b")}, 1},
		"after a kill":              {[]logLine{begins("a"), interrupt("a"), begins("b"), ends("b")}, 0},
		"before a kill":             {[]logLine{begins("a"), begins("b"), interrupt("a"), ends("b")}, 1},
		"after the kill of another": {[]logLine{begins("a"), interrupt("c"), begins("b")}, 1},
		"one that was paused ends":  {[]logLine{begins("a"), interrupt("a"), begins("b"), ends("a"), begins("c")}, 1},
		"one that was paused works": {[]logLine{interrupt("a"), begins("b"), begins("a")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if found := overlaps(test.history); len(found) != test.want {
				t.Errorf("found %q", found)
			}
		})
	}
}

// TestDemo uses all commands, in the default mode.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--websites", "20")
	d.Expect(d.owners()).To(And(HaveLen(20), Not(ContainElement(""))), "all websites are ready after the start")
	d.waitForOwners(0, 1, 2)
	d.changeTheme()
	d.Expect(d.command("scale", "4")).To(ContainSubstring("Scaled to 4 instances."))
	d.waitForOwners(0, 1, 2, 3)
	d.Expect(d.command("websites", "24")).To(ContainSubstring("Created 4 websites"))
	d.Eventually(d.owners).Should(And(HaveLen(24), Not(ContainElement(""))))

	// Kill one instance and pause another for longer than their Leases last.
	d.Expect(d.interruptDuringReconciles(instance(1), "kill", "--away", "1h")).To(ContainSubstring("restarts in 1h0m0s"))
	d.Expect(d.interruptDuringReconciles(instance(0), "pause")).To(ContainSubstring("Resume it with 'resume'"))
	d.waitForOwners(2, 3)
	d.Expect(d.command("resume", instance(1))).To(ContainSubstring("Resumed " + instance(1)))
	d.Expect(d.command("resume", instance(0))).To(ContainSubstring("Resumed " + instance(0)))
	d.waitForOwners(0, 1, 2, 3)
	d.Eventually(func() string { return d.process.Tail(1000) }).Should(And(
		ContainSubstring(instance(1)+": killed by you"),
		ContainSubstring(instance(0)+": ended: this process has lost its lease"),
		Not(ContainSubstring("\x1b"))))
	d.Expect(overlaps(d.history())).To(BeEmpty())
	d.Expect(len(d.history())).To(BeNumerically(">", 24))

	d.Expect(d.command("stop", instance(3))).To(ContainSubstring("stays stopped"))
	d.waitForOwners(0, 1, 2)
	d.Expect(d.command("list")).To(And(
		MatchRegexp(`(?m)^NAME +STATE +PID +RESTARTS +AGE +LAST EXIT\n`+instance(0)+` +running +\d+ +1 `),
		MatchRegexp(`(?m)^`+instance(3)+` +stopped +- +0 +\w+ +stopped by you$`), MatchRegexp(`(?m)^sharder-1 +running`)))
	list := struct{ Processes []control.Process }{}
	d.Expect(json.Unmarshal([]byte(d.command("list", "-o", "json")), &list)).To(Succeed())
	d.Expect(list.Processes).To(And(HaveLen(6), ContainElement(And(HaveField("Name", instance(3)), HaveField("State", "stopped")))))
	d.Expect(d.command("kill", instance(3))).To(And(ContainSubstring("start it with 'resume'"), Not(ContainSubstring("Killed"))))
	d.Expect(d.command("kill", "nobody")).To(ContainSubstring(`process "nobody" not found (available: ` + instance(0)))
	d.Expect(d.command("kill")).To(ContainSubstring("PROCESS is missing, as in 'ringmaster demo kill webhosting-operator-1'; available: " + instance(0)))
	d.Expect(d.command("scale", "three")).To(ContainSubstring("is not a valid NUMBER"))
	d.stop()
	d.Expect(d.command("scale", "4")).To(ContainSubstring("no demo is running"))
}
