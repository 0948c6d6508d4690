package operator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func TestMain(m *testing.M) {
	rig.Main(m, rig.Options{CRDs: []string{"examples/etcdcluster/config/crds"}})
}

func TestTellNews(t *testing.T) {
	t.Parallel()
	status := func(ready, coordinated, waiting string) *etcdclusterv1alpha1.EtcdClusterStatus {
		return &etcdclusterv1alpha1.EtcdClusterStatus{Waiting: waiting, Conditions: []metav1.Condition{
			{Type: etcdclusterv1alpha1.ConditionReady, Reason: ready, Message: "about " + ready},
			{Type: etcdclusterv1alpha1.ConditionCoordinated, Reason: coordinated, Message: "about " + coordinated},
		}}
	}
	for name, test := range map[string]struct {
		before, after *etcdclusterv1alpha1.EtcdClusterStatus
		want          []string
	}{
		"all is well":             {status("", "", ""), status("MembersReady", "Settled", ""), nil},
		"one takes no part":       {status("", "Settled", ""), status("", "MixedModes", ""), []string{"MixedModes: about MixedModes"}},
		"one still takes no part": {status("", "MixedModes", ""), status("", "MixedModes", ""), nil},
		"it is denied":            {status("", "MixedModes", ""), status("", "Denied", ""), []string{"Denied: about Denied"}},
		"it waits":                {status("", "", ""), status("", "Waiting", "5s more without a change"), []string{"Waiting: 5s more without a change"}},
		"it waits for less time":  {status("", "Waiting", "1m5s more without a change"), status("", "Waiting", "4s more without a change"), nil},
		"it waits for another":    {status("", "Waiting", "dc1-1: it is not ready"), status("", "Waiting", "dc1-2: it is not ready"), []string{"Waiting: dc1-2: it is not ready"}},
		"it is less behind":       {status("", "", "dc1-1 is 7000 entries behind"), status("", "", "dc1-1 is 6000 entries behind"), nil},
		"its agent is away": {
			status("MembersReady", "Settled", ""), status("AgentUnreachable", "Settled", "reaching the agent"), []string{"AgentUnreachable: about AgentUnreachable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			tellNews(test.before, test.after, func(reason, message string) { got = append(got, reason+": "+message) })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCalm(t *testing.T) {
	t.Parallel()
	verdict := &coordination.Verdict{Action: coordination.Restart, Waits: []coordination.Waits{
		{For: "dc1-1", Reason: "it is not ready"}, {Reason: "3.217s more without a change"},
	}}
	if got, want := calm(verdict), "Restart waits for dc1-1: it is not ready; 4s more without a change"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// People see each thing that happened, and what they should look at as a warning.
func TestEvents(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	scheme := runtime.NewScheme()
	g.Expect(etcdclusterv1alpha1.AddToScheme(scheme)).To(Succeed())
	cluster := &etcdclusterv1alpha1.EtcdCluster{}
	cluster.Namespace, cluster.Name, cluster.UID = r.Namespace, "orders", "1"
	sink := events.NewBroadcaster(&events.EventSinkImpl{Interface: r.Clientset.EventsV1()})
	defer sink.Shutdown()
	g.Expect(sink.StartRecordingToSinkWithContext(t.Context())).To(Succeed())
	note := teller(t.Context(), sink.NewRecorder(scheme, "etcdcluster"), cluster)
	note("Obeyed", "restart dc1-1, as ordered with token 1.")
	note("Obeyed", "restart dc1-2, as ordered with token 1.")
	note("GaveUp", "Restart was given up: dc1-3 is not well again in time.")
	g.Eventually(func() map[string]string {
		found, err := r.Clientset.EventsV1().Events(r.Namespace).List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		got := map[string]string{}
		for _, event := range found.Items {
			got[event.Note] = event.Type + " " + event.Reason
		}
		return got
	}).WithTimeout(time.Minute).Should(Equal(map[string]string{
		"restart dc1-1, as ordered with token 1.":                "Normal Obeyed",
		"restart dc1-2, as ordered with token 1.":                "Normal Obeyed",
		"Restart was given up: dc1-3 is not well again in time.": "Warning GaveUp",
	}))
}

// What is waited for changes once a second at most.
func TestWaitsCalmly(t *testing.T) {
	t.Parallel()
	p := setting(t, three(), "dc1")
	p.says("dc1", restarts("dc1-1"))
	r := p.next("dc1", three())
	p.must(r.c.SetPolicies(policies(coordination.Policy{Quiet: 4700 * time.Millisecond})))
	p.must(r.restart(t.Context()))
	if got, want := r.waiting, "Restart waits for 5s more without a change"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if r.again != 4700*time.Millisecond {
		t.Errorf("it looks again after %s", r.again)
	}
}
