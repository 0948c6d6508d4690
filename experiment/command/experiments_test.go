//go:build experiments

package command_test

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/report"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// Every scenario, with every kind of disturbance, from its beginning to its report.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string
		check func(Gomega, *report.Report)
	}{
		"basic": {[]string{"--setups", "lead,in-process,external"}, func(g Gomega, r *report.Report) {
			g.Expect(r.Results).To(HaveLen(3))
			for i, setup := range []string{"lead", "in-process", "external"} {
				g.Expect(string(r.Results[i].Setup)).To(Equal(setup))
			}
		}},
		"scale-out": {[]string{"--instances", "2", "--scale", "0.1", "--work-time", "500ms", "--duration", "5m"}, func(g Gomega, r *report.Report) {
			if c := r.Results[0].Capacity; c != nil { // nil if the machine is too slow for the initial load
				g.Expect(c.Objects).To(BeNumerically(">", 50))
				g.Expect(c.Changes).To(BeNumerically(">", 1))
				g.Expect(c.Limit).NotTo(BeEmpty(), "five minutes of growth are beyond the capacity")
			}
		}},
		"rolling-update": {[]string{"--instances", "2", "--setups", "in-process"}, func(g Gomega, r *report.Report) {
			events(g, r, "webhosting-operator-0 is replaced", "webhosting-operator-1 is replaced")
		}},
		"chaos": {[]string{"--duration", "50s"}, func(g Gomega, r *report.Report) {
			events(g, r, "is killed", "is killed")
			o := r.Results[0].Ownership
			g.Expect(o.Moves).To(BeNumerically(">", 0), "other instances take over")
			g.Expect(o.Ownerless).To(BeNumerically(">", 0), "its Websites have no live owner until then")
			g.Expect(r.Results[0].Recoveries).NotTo(BeEmpty())
			g.Expect(r.Results[0].Recoveries[0].Max).To(BeNumerically(">", 5), "the Lease must expire")
		}},
		"rebalance": {nil, func(g Gomega, r *report.Report) {
			events(g, r, "webhosting-operator-3 joins", "webhosting-operator-4 joins", "webhosting-operator-0 leaves", "webhosting-operator-1 leaves")
			o := r.Results[0].Ownership
			g.Expect(o.Moves).To(BeNumerically(">", 0))
			g.Expect(o.WritesPerMove()).To(BeNumerically("<", 2.5))
			created := 0.0
			for _, process := range r.Results[0].Processes {
				if strings.HasPrefix(process.Name, "webhosting-operator-") {
					created += process.Requests["POST"]
				}
			}
			g.Expect(created).To(BeNumerically("<", r.Results[0].Load.Initial), "what was created before the run does not count")
		}},
		"reconnect": {nil, func(g Gomega, r *report.Report) {
			events(g, r, "the API server was restarted", "the API server was restarted", "the API server was restarted")
		}},
		"size": {[]string{"--objects", "10,30"}, func(g Gomega, r *report.Report) {
			g.Expect(r.Results).To(HaveLen(2))
			g.Expect(r.Results[1].Load.Initial).To(Equal(30))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			out, stderr := filepath.Join(t.TempDir(), "report"), &output{}
			args := append([]string{name, "--scale", "0.05", "--duration", "20s", "--max-cpu", "1", "--max-other-cpu", "1", "--max-lateness", "1m", "--max-unfinished", "0.99", "--programs", programs(t), "--assets", rig.Assets(t), "--out", out}, test.args...)
			summary, err := experiment(t.Context(), stderr, args...)
			if err != nil { // the machine may be slow
				g.Expect(err).To(MatchError("not all objectives hold"), summary+stderr.String())
			}
			got := found(g, out)
			failed := false
			for _, result := range got.Results {
				expectConsistent(g, result)
				failed = failed || result.Failed()
			}
			g.Expect(err != nil).To(Equal(failed), summary)
			g.Expect(summary).To(ContainSubstring("The report is " + out))
			g.Expect(stderr.String()).To(MatchRegexp(`1 of \d, .* left: starting`))
			test.check(g, got)
		})
	}
}

// events checks the planned events, in order.
func events(g Gomega, r *report.Report, want ...string) {
	happened := slices.DeleteFunc(slices.Clone(r.Results[0].Events), func(e run.Event) bool { return !e.Planned })
	g.Expect(happened).To(HaveLen(len(want)))
	for i, event := range happened {
		g.Expect(event.Description).To(ContainSubstring(want[i]))
	}
}

// After Ctrl-C there is a report about what has run.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	out, stderr := filepath.Join(t.TempDir(), "report"), &output{}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		for !regexp.MustCompile(`[1-9]\d* Websites, `).MatchString(stderr.String()) && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		interrupt()
	}()
	summary, err := experiment(ctx, stderr, "basic", "--max-cpu", "1", "--max-other-cpu", "1", "--max-lateness", "1m", "--scale", "0.1", "--setups", "in-process,external", "--programs", programs(t), "--assets", rig.Assets(t), "--out", out)
	g.Expect(err).To(MatchError("interrupted: the report covers what has run"))
	g.Expect(summary).To(MatchRegexp(`interrupted after \S+`))
	got := found(g, out)
	g.Expect(got.Interrupted).To(BeTrue())
	g.Expect(got.Results).To(HaveLen(1))
	g.Expect(got.Results[0].Interrupted).To(BeTrue())
	g.Expect(stderr.String()).To(ContainSubstring("30m left"), "of both")
}

// In an existing cluster nothing remains of the Websites. If it has Websites before, the experiment does not start.
func TestExistingCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := rig.Private(t, rig.Options{ControllerManager: true})
	args := []string{"basic", "--max-cpu", "1", "--max-other-cpu", "1", "--max-lateness", "1m", "--scale", "0.05", "--duration", "15s", "--setups", "external,in-process", "--kubeconfig", r.Kubeconfig, "--host", "127.0.0.1", "--programs", programs(t), "--out"}
	out, stderr := filepath.Join(t.TempDir(), "report"), &output{}
	if _, err := experiment(t.Context(), stderr, append(args, out)...); err != nil {
		g.Expect(err).To(MatchError("not all objectives hold"), stderr.String())
	}
	g.Expect(found(g, out).Results).To(HaveLen(2))
	admin, err := client.New(r.Config, client.Options{Scheme: fleet.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	websites := &webhostingv1alpha1.WebsiteList{}
	g.Expect(admin.List(t.Context(), websites)).To(Succeed())
	g.Expect(websites.Items).To(BeEmpty())

	mine := &webhostingv1alpha1.Website{Spec: webhostingv1alpha1.WebsiteSpec{Theme: "mine"}}
	mine.Namespace, mine.Name = "default", "mine"
	g.Expect(admin.Create(t.Context(), mine)).To(Succeed())
	_, err = experiment(t.Context(), stderr, append(args, filepath.Join(t.TempDir(), "other"))...)
	g.Expect(err).To(MatchError(ContainSubstring("the cluster already has Websites, such as default/mine")))
	g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(mine), mine)).To(Succeed())
}
