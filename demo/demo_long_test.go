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

// TestDemoGoesOnInAnotherMode keeps its data, and goes on with it in the mode in which one of the instances is
// the sharder too. No website moves for that. Then that instance is stopped.
func TestDemoGoesOnInAnotherMode(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(rig.TempDir(t), "data")
	first := show(t, "--data-dir", dir, "--websites", "12")
	first.shared(0, 1, 2)
	first.themed()
	var before map[string]string
	first.Eventually(func() (_ map[string]string, err error) {
		before, err = first.owners()
		return before, err
	}).Should(And(HaveLen(12), Not(ContainElement(""))), "all are ready again")
	first.ends()

	d := show(t, "--data-dir", dir, "--mode", "in-process", "--websites", "12")
	d.Eventually(d.owners).Should(Equal(before))
	d.Expect(d.page("project-bakery/homepage")).To(ContainSubstring("orange"), "what was changed stays changed")
	const election = webhostingRing + "-sharder"
	sharder := d.holder(election)
	d.Expect(sharder).NotTo(BeEmpty())
	d.Expect(d.types("stop", sharder)).To(ContainSubstring("nothing is up"), "it has to be said which one")
	d.Expect(d.types("stop", sharder, "--data-dir", dir)).To(ContainSubstring("stays away"))
	d.Eventually(func() string { return d.holder(election) }).ShouldNot(Or(Equal(sharder), BeEmpty()))
	d.Eventually(d.owners).ShouldNot(Or(ContainElement(sharder), ContainElement("")))
	d.Expect(d.types("resume", sharder, "--data-dir", dir)).To(ContainSubstring("goes on"))
	d.Eventually(d.owners).Should(Equal(before))
	d.ends()
}

// TestDemoWithASpoiltWebsite is killed with a website that nobody can make ready, and comes up again on the same
// data. It says which one that is.
func TestDemoWithASpoiltWebsite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(rig.TempDir(t), "data")
	args := []string{"--data-dir", dir, "--mode", "in-process", "--shards", "2", "--websites", "2"}
	first := show(t, args...)
	website := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theme": "missing"}}}
	website.SetGroupVersionKind(schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"})
	website.SetNamespace("project-bakery")
	website.SetName("spoilt")
	first.Expect(first.client.Create(t.Context(), website)).To(Succeed())
	first.Eventually(func() (string, error) {
		err := first.client.Get(t.Context(), client.ObjectKeyFromObject(website), website)
		phase, _, _ := unstructured.NestedString(website.Object, "status", "phase")
		return phase, err
	}).Should(Equal("Error"))
	first.Expect(first.process.Kill()).To(Succeed())

	d := show(t, args...)
	d.Expect(d.process.Tail(50)).To(ContainSubstring("going on without those that are not ready: project-bakery/spoilt (Error)"))
	d.ends()
}
