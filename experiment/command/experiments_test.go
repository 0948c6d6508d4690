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
			if c := r.Results[0].Capacity; c != nil { // otherwise this machine was too slow from the beginning on
				g.Expect(c.Objects).To(BeNumerically(">", 50))
				g.Expect(c.Changes).To(BeNumerically(">", 1))
				g.Expect(c.GaveWay).NotTo(BeEmpty(), "it cannot bear what comes in five minutes")
			}
		}},
		"rolling-update": {[]string{"--instances", "2", "--setups", "in-process"}, func(g Gomega, r *report.Report) {
			events(g, r, "webhosting-operator-0 is replaced", "webhosting-operator-1 is replaced")
		}},
		"chaos": {[]string{"--duration", "50s"}, func(g Gomega, r *report.Report) {
			events(g, r, "is killed", "is killed")
			o := r.Results[0].Ownership
			g.Expect(o.Moves).To(BeNumerically(">", 0), "others take over")
			g.Expect(o.Ownerless).To(BeNumerically(">", 0), "nobody has them until then")
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
			g.Expect(created).To(BeNumerically("<", r.Results[0].Load.Initial), "what was made before it began does not count")
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
			out, said := filepath.Join(t.TempDir(), "report"), &words{}
			args := append([]string{name, "--scale", "0.05", "--duration", "20s", "--programs", programs(t), "--assets", rig.Assets(t), "--out", out}, test.args...)
			summary, err := experiment(t.Context(), said, args...)
			if err != nil { // this machine may be slow
				g.Expect(err).To(MatchError("not all objectives hold"), summary+said.String())
			}
			made := found(g, out)
			failed := false
			for _, result := range made.Results {
				sound(g, result)
				failed = failed || result.Failed()
			}
			g.Expect(err != nil).To(Equal(failed), summary)
			g.Expect(summary).To(ContainSubstring("The report is " + out))
			g.Expect(said.String()).To(MatchRegexp(`1 of \d, .* left: starting`))
			test.check(g, made)
		})
	}
}

// events are what must have happened, in order.
func events(g Gomega, r *report.Report, want ...string) {
	happened := slices.DeleteFunc(slices.Clone(r.Results[0].Events), func(e run.Happened) bool { return !e.Meant })
	g.Expect(happened).To(HaveLen(len(want)))
	for i, event := range happened {
		g.Expect(event.What).To(ContainSubstring(want[i]))
	}
}

// Who presses Ctrl-C has a report about what has run.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	out, said := filepath.Join(t.TempDir(), "report"), &words{}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		for !regexp.MustCompile(`[1-9]\d* Websites, `).MatchString(said.String()) && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		interrupt()
	}()
	summary, err := experiment(ctx, said, "basic", "--scale", "0.1", "--setups", "in-process,external", "--programs", programs(t), "--assets", rig.Assets(t), "--out", out)
	g.Expect(err).To(MatchError(Or(Equal("it was ended before its time: the report is about what has run"), Equal("not all objectives hold"))))
	g.Expect(summary).To(MatchRegexp(`it was ended after \S+, before its time`))
	made := found(g, out)
	g.Expect(made.Cut).To(BeTrue())
	g.Expect(made.Results).To(HaveLen(1))
	g.Expect(made.Results[0].Interrupted).To(BeTrue())
	g.Expect(said.String()).To(ContainSubstring("30m left"), "of both")
}

// On somebody's cluster, setup after setup, nothing is left of what users made. Where somebody else has Websites, nothing is done.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := rig.Private(t, rig.Options{ControllerManager: true})
	args := []string{"basic", "--scale", "0.05", "--duration", "15s", "--setups", "external,in-process", "--kubeconfig", r.Kubeconfig, "--host", "127.0.0.1", "--programs", programs(t), "--out"}
	out, said := filepath.Join(t.TempDir(), "report"), &words{}
	if _, err := experiment(t.Context(), said, append(args, out)...); err != nil {
		g.Expect(err).To(MatchError("not all objectives hold"), said.String())
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
	_, err = experiment(t.Context(), said, append(args, filepath.Join(t.TempDir(), "other"))...)
	g.Expect(err).To(MatchError(ContainSubstring("there are Websites in this cluster already, such as default/mine")))
	g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(mine), mine)).To(Succeed())
}
