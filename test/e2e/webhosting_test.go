//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// mode is a way to run several instances of the sample operator. It has the name of its manifests.
type mode struct {
	name string
	// elected is the Lease of the leader, or of the in-process sharder, or "".
	elected string
	// shardedOperator is whether every object has an owner.
	sharded bool
}

var modes = []mode{
	{name: "lead", elected: operator + "-leader"},
	{name: "in-process", elected: operator + "-sharder", sharded: true},
	{name: "shard", sharded: true}, // last, because it may wait for the sharder of another test
}

// TestWebhosting installs the sample operator from its manifests in each of its modes, serves its sample
// Websites with a real nginx behind Service and Ingress, and scales, rolls out, crashes and kills its
// instances. Meanwhile no request of the pages fails.
//
//nolint:tparallel // one mode after the other: all have the same namespace
func TestWebhosting(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(root, "bin", "images", "nginx.tar")); onNode() && err != nil {
		t.Fatal("bin/images/nginx.tar not found: 'make images' prints the reason")
	}
	all := connect(t)
	web := all.runIngress()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			c := *all
			c.T = t
			if m.name == "shard" {
				c.install()
			}
			h := &hosting{cluster: &c, mode: m, web: web, objects: all.objects()}
			h.runSteps()
		})
	}
}

// runSteps scales, rolls out, crashes and kills the operator's instances.
func (h *hosting) runSteps() {
	h.installOperator()
	h.protect()
	h.step("started", 3, h.applySamples)
	h.step("theme changed", 3, h.changeTheme)

	h.visitor = h.startVisitor()
	h.step("scaled up", 4, func() { h.kubectl("", "scale", "-n", hostingSystem, "deployment/"+operator, "--replicas=4") })
	h.step("scaled down", 2, func() { h.kubectl("", "scale", "-n", hostingSystem, "deployment/"+operator, "--replicas=2") })
	h.step("restarted by a rollout", 2, func() {
		h.kubectl("", "rollout", "restart", "-n", hostingSystem, "deployment/"+operator)
		h.kubectl("", "rollout", "status", "-n", hostingSystem, "deployment/"+operator, "--timeout="+testTimeout.String())
	})
	h.expectNoRefusals()
	h.step("instance crashed, and a website made", 2, func() {
		h.crash(h.busiest())
		h.makeWebsite()
	})
	h.step("instance killed, and a website made", 2, func() {
		h.kubectl("", "delete", "pod", "-n", hostingSystem, h.busiest(), "--force", "--grace-period=0")
		h.makeWebsite()
	})
	h.visitor.stop()
	h.Logf("the policies of the ring refused %d requests, all after the crash or the kill", h.refusals())
}

// step does something, and waits until the wanted number of instances is ready and all objects have an owner.
func (h *hosting) step(name string, instances int, do func()) {
	h.Helper()
	began := time.Now()
	do()
	h.awaitInstances(instances)
	h.Logf("%s: settled after %.1f s", name, time.Since(began).Seconds())
	if h.visitor != nil {
		h.visitor.expectNoFailures(h.cluster)
	}
}

// applySamples applies the samples, and waits until all pages are served.
func (h *hosting) applySamples() {
	h.Helper()
	h.kubectl("", "apply", "-k", samples)
	h.kubectl("", "wait", "websites", "--all", "--all-namespaces", readyPhase, "--timeout="+testTimeout.String())
	h.pagesAreCurrent()
}

// changeTheme changes a Theme, and waits until the pages of its Websites show it.
func (h *hosting) changeTheme() {
	h.Helper()
	h.kubectl("", "patch", "theme", sampleTheme, "--type=merge", "-p", `{"spec":{"color":"rebeccapurple"}}`)
	h.pagesAreCurrent()
	h.kubectl("", "wait", "websites", "--all", "--all-namespaces", readyPhase, "--timeout="+testTimeout.String())
}

// makeWebsite makes a Website whose name the API server chooses, and waits until it is served.
func (h *hosting) makeWebsite() {
	h.Helper()
	name := strings.TrimSpace(h.kubectl(lateWebsite, "create", "-f", "-", "-o", "name"))
	h.kubectl("", "wait", "-n", sampleProject, name, readyPhase, "--timeout="+testTimeout.String())
	h.pagesAreCurrent()
}

// busiest is the elected instance, or else the one with the most objects.
func (h *hosting) busiest() string {
	h.Helper()
	g := NewWithT(h)
	if h.mode.elected != "" {
		return h.electedInstance(g)
	}
	most, objects := "", h.owned(g, h.instances(g))
	for name := range objects {
		if objects[name] >= objects[most] {
			most = name
		}
	}
	return most
}
