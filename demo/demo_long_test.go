//go:build long

package main_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestModeChange restarts a demo with kept data in the in-process mode, which moves no website, and
// then stops the instance that is the in-process sharder.
func TestModeChange(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(rig.TempDir(t), "data")
	first := startDemo(t, "--data-dir", dir, "--websites", "12")
	first.waitForOwners(0, 1, 2)
	first.changeTheme()
	var before map[string]string
	first.Eventually(func() (_ map[string]string, err error) {
		before, err = first.owners()
		return before, err
	}).Should(And(HaveLen(12), Not(ContainElement(""))), "all websites are ready again")
	first.stop()

	d := startDemo(t, "--data-dir", dir, "--mode", "in-process", "--websites", "12")
	d.Eventually(d.owners).Should(Equal(before))
	d.Expect(d.page("project-bakery/homepage")).To(ContainSubstring("orange"), "the changed theme is kept")
	const election = webhostingRing + "-sharder"
	sharder := d.holder(election)
	d.Expect(sharder).NotTo(BeEmpty())
	d.Expect(d.command("stop", sharder)).To(ContainSubstring("no demo is running"), "--data-dir is required")
	d.Expect(d.command("stop", sharder, "--data-dir", dir)).To(ContainSubstring("stays stopped"))
	d.Eventually(func() string { return d.holder(election) }).ShouldNot(Or(Equal(sharder), BeEmpty()))
	d.Eventually(d.owners).ShouldNot(Or(ContainElement(sharder), ContainElement("")))
	d.Expect(d.command("resume", sharder, "--data-dir", dir)).To(ContainSubstring("Resumed " + sharder))
	d.Eventually(d.owners).Should(Equal(before))
	d.stop()
}

// TestStartWithFailedWebsite kills a demo with a website that cannot become ready, and expects the
// next start to report it.
func TestStartWithFailedWebsite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(rig.TempDir(t), "data")
	args := []string{"--data-dir", dir, "--mode", "in-process", "--shards", "2", "--websites", "2"}
	first := startDemo(t, args...)
	website := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theme": "missing"}}}
	website.SetGroupVersionKind(schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"})
	website.SetNamespace("project-bakery")
	website.SetName("broken")
	first.Expect(first.client.Create(t.Context(), website)).To(Succeed())
	first.Eventually(func() (string, error) {
		err := first.client.Get(t.Context(), client.ObjectKeyFromObject(website), website)
		phase, _, _ := unstructured.NestedString(website.Object, "status", "phase")
		return phase, err
	}).Should(Equal("Error"))
	first.Expect(first.process.Kill()).To(Succeed())

	d := startDemo(t, args...)
	d.Expect(d.process.Tail(50)).To(ContainSubstring("continuing, although some are not ready: project-bakery/broken (Error)"))
	d.stop()
}
