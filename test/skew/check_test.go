package skew_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

// margin is added to the times that follow from Leases, for a busy machine.
const margin = 20 * time.Second

var rules = oracle.Options{
	Main:       []schema.GroupKind{{Kind: "ConfigMap"}},
	Controlled: []schema.GroupKind{{Kind: "Secret"}},
	Sharder:    "sharder",
	Lag:        10 * time.Second, Wake: margin / 2, Settle: margin,
	// A killed shard's Lease expires, followed by the grace period of a tenth of its duration.
	Unowned: leaseDuration + leaseDuration/10 + margin, Apart: margin,
}

// waitUntilIdle waits until the ring has the given members, each object has the owner on which both versions must
// agree, and nothing has been written for a while, which includes a resync.
func (f *fixture) waitUntilIdle(members ...*shardProcess) {
	f.t.Helper()
	var names []string
	for _, p := range members {
		names = append(names, p.name)
	}
	slices.Sort(names)
	f.Eventually(func() []string {
		events, err := history.Read(f.writes())
		f.Expect(err).NotTo(HaveOccurred())
		var reasons []string
		for _, event := range slices.Backward(events) {
			if event.Type == history.Wrote && time.Since(event.Time) < restFor {
				reasons = append(reasons, "writes, the last of "+event.Write.Object.String())
				break
			}
		}
		report := oracle.Check(events, rules)
		if changes := report.Figures.Changes; len(changes) == 0 || !slices.Equal(changes[len(changes)-1].After, names) {
			reasons = append(reasons, "the members are not yet "+strings.Join(names, ", "))
		}
		for _, violation := range report.Violations {
			if violation.Rule == oracle.EndState {
				reasons = append(reasons, violation.String())
			}
		}
		return reasons
	}).WithPolling(time.Second / 2).Should(BeEmpty())
}

// owners returns the current owners of all objects.
func (f *fixture) owners() map[string]string {
	f.t.Helper()
	list := &corev1.ConfigMapList{}
	f.Expect(f.Client.List(context.Background(), list, client.InNamespace(f.Namespace))).To(Succeed())
	owners := map[string]string{}
	for i := range list.Items {
		owners[list.Items[i].Name] = list.Items[i].Labels[shardingv1alpha1.LabelShard(f.ring.Name)]
	}
	return owners
}

// checkHistory checks that the oracle finds no violation in the history, and that every change of the members moved
// objects, each of those that had to move once.
func (f *fixture) checkHistory() {
	f.t.Helper()
	paths := []string{f.writes()}
	for _, p := range f.shards {
		paths = append(paths, p.record)
		if !p.endExpected && !p.Process.Running() {
			f.t.Errorf("%s ended unexpectedly", p.id)
		}
	}
	events, err := history.Read(paths...)
	f.Expect(err).NotTo(HaveOccurred())
	report := oracle.Check(events, rules)
	f.t.Log(report.Figures)
	f.Expect(report.Figures.Reconciles).To(BeNumerically(">", f.objects/2), "the shards recorded their reconciles")
	for _, change := range report.Figures.Changes {
		// A leaving shard announces it before it releases its Lease, which then changes nothing.
		changed := change.Objects > 0 && !slices.Equal(change.Before, change.After)
		if changed && (change.HadToMove == 0 || change.Moved != change.HadToMove) {
			f.t.Errorf("the change %s", change)
		}
	}
	shown := map[oracle.Rule]bool{}
	for _, violation := range report.Violations {
		f.t.Error(violation)
		if !shown[violation.Rule] {
			f.t.Log(f.around(violation, events))
		}
		shown[violation.Rule] = true
	}
}

// around returns the events about the object of a violation, and about all processes and Leases, at that time.
func (f *fixture) around(violation oracle.Violation, events []history.Event) string {
	const before, after = 5 * time.Second, 5 * time.Second
	var lines []string
	for _, event := range events {
		other := event.Reconcile != nil && event.Reconcile.Object.Name != violation.Object.Name ||
			event.Write != nil && event.Write.Object.Name != violation.Object.Name || event.Request != nil
		if other || event.Time.Before(violation.From.Add(-before)) || event.Time.After(violation.To.Add(after)) {
			continue
		}
		line, err := json.Marshal(event)
		f.Expect(err).NotTo(HaveOccurred())
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}
