package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/controller"
)

func TestMain(m *testing.M) {
	rig.Main(m, rig.Options{CRDs: []string{"examples/etcdcluster/config/crds"}})
}

// reconciling returns a reconciler of some EtcdClusters, and a counter of status writes.
func reconciling(t *testing.T, w *fixture, clusters ...client.Object) (r *reconciler, writes *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	w.must(etcdclusterv1alpha1.AddToScheme(scheme))
	writes = new(int)
	counting := interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
	) error {
		*writes++
		return c.SubResource(sub).Patch(ctx, o, patch, opts...)
	}}
	w.agents["api"] = newFakeAgent(t)
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(clusters...).WithStatusSubresource(&etcdclusterv1alpha1.EtcdCluster{}).
		WithInterceptorFuncs(counting).Build()
	r = &reconciler{
		Client: api, agent: w.agents["api"].Client, events: events.NewFakeRecorder(100),
		options: Options{Clock: w.clock, Name: "dc1-operator", Store: w.store},
	}
	r.participants = controller.Participants[*participant]{Client: api, Finalizer: Finalizer, Registry: prometheus.NewRegistry()}
	t.Cleanup(func() { r.participants.Close(context.WithoutCancel(t.Context())) })
	return r, writes
}

func cluster(name, system string, age time.Duration) *etcdclusterv1alpha1.EtcdCluster {
	c := &etcdclusterv1alpha1.EtcdCluster{}
	c.Namespace, c.Name, c.Generation = "dc1", name, 1
	c.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000, 0).Add(-age))
	c.Spec.System, c.Spec.ProcessGroupIDPrefix = system, "dc1"
	return c
}

// A status is written when it has changed, and not in every reconcile.
func TestWriteOnce(t *testing.T) {
	t.Parallel()
	w := setting(t, three())
	c := cluster("orders", "", 0)
	r, writes := reconciling(t, w, c)
	for range 3 {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		w.must(err)
	}
	if *writes != 1 {
		t.Errorf("written %d times", *writes)
	}
}

// If two EtcdClusters have the same system, the older one manages the members.
func TestOnePartOfASystem(t *testing.T) {
	t.Parallel()
	w := setting(t, three())
	elder, other, same := cluster("orders", "", time.Hour), cluster("other", "", 0), cluster("same", "orders", 0)
	same.Spec.Members = 1
	r, _ := reconciling(t, w, elder, other, same)
	for name, taken := range map[string]bool{"orders": false, "other": false, "same": true} {
		key := types.NamespacedName{Namespace: "dc1", Name: name}
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		w.must(err)
		now := &etcdclusterv1alpha1.EtcdCluster{}
		w.must(r.Get(t.Context(), key, now))
		ready := found(&region{cluster: now}, etcdclusterv1alpha1.ConditionReady)
		if is := ready.Reason == etcdclusterv1alpha1.ReasonSystemTaken; is != taken {
			t.Errorf("%s: %s: %s", name, ready.Reason, ready.Message)
		}
		if slices.Contains(now.Finalizers, Finalizer) == taken {
			t.Errorf("%s has the finalizers %v", name, now.Finalizers)
		}
	}
	if calls := w.agents["api"].made; len(calls) > 0 {
		t.Errorf("something was done for the younger one: %v", calls)
	}
}

// A participant leaves when its EtcdCluster is deleted, even if its operator was down at that time or the first
// attempt fails.
func TestLeave(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"the operator is there": false, "the operator was down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setting(t, three(), "dc1")
			w.agent("dc1").members = []agent.Member{changed("dc1-1")}
			w.regions["dc1"].cluster.Spec.AutomationOptions.QuietWindow = &metav1.Duration{Duration: time.Hour}
			w.reconcile(2, "dc1")
			if len(w.view().Participants) != 1 || len(w.view().Sets[pendingForRestart]) != 1 {
				t.Fatalf("it has said %v", w.view().Sets)
			}
			c := cluster("orders", "", 0)
			c.Finalizers, c.Spec.Seeds = []string{Finalizer}, []string{"http://127.0.0.1:1"}
			r, _ := reconciling(t, w, c)
			key := client.ObjectKeyFromObject(c)
			if restarted {
				w.must(w.regions["dc1"].Coordinator.Close(t.Context()))
			} else {
				w.must(r.participants.Add(key, w.regions["dc1"].participant))
			}
			w.must(r.Delete(t.Context(), c))
			for _, broken := range []error{errors.New("the store is away"), nil} {
				w.store.broken = broken
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); (err != nil) != (broken != nil) {
					t.Errorf("got %v", err)
				}
			}
			view := w.view()
			_, stays := r.participants.Get(key)
			if len(view.Instances)+len(view.Participants)+len(view.DeadParticipants())+len(view.Sets[pendingForRestart]) > 0 || stays {
				t.Errorf("it is still there: %v, %v", view.Participants, view.Sets)
			}
			if err := r.Get(t.Context(), key, c); !apierrors.IsNotFound(err) {
				t.Errorf("the EtcdCluster is not gone: %v %v", err, c.Finalizers)
			}
		})
	}
}

// An EtcdCluster without entries is deleted at once. One whose system cannot be reached stays.
func TestLeaveWithoutSystem(t *testing.T) {
	t.Parallel()
	for id, stays := range map[string]bool{"": false, "8e9e": true} {
		w := setting(t, three())
		c := cluster("orders", "", 0)
		c.Finalizers, c.Status.ClusterID = []string{Finalizer}, id
		r, _ := reconciling(t, w, c)
		w.must(r.Delete(t.Context(), c))
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		if (err != nil) != stays {
			t.Errorf("%q: %v", id, err)
		}
		if gone := r.Get(t.Context(), client.ObjectKeyFromObject(c), c) != nil; gone == stays {
			t.Errorf("%q: it is gone: %t", id, gone)
		}
	}
}

func TestReportMembers(t *testing.T) {
	t.Parallel()
	state := three()
	state.Cluster = 0xabc
	for i := range state.Members {
		state.Members[i].ClientURLs = []string{"http://client-" + state.Members[i].Name}
		state.Members[i].Version = "3.7.0"
	}
	crashes := process("dc1-1", agent.Running)
	crashes.Running, crashes.Problem = false, "etcd has ended (exit status 2, attempt 3); its last words: flag provided but not defined: -x"
	running := process("dc1-1", agent.Running)
	running.ClientURL = "http://client-dc1-1"
	type status = etcdclusterv1alpha1.EtcdClusterStatus
	member := etcdclusterv1alpha1.MemberStatus{ID: "dc1-1", PeerURL: "http://dc1-1", ArgsCurrent: true, Phase: "Prepared"}
	with := func(change func(*etcdclusterv1alpha1.MemberStatus)) []etcdclusterv1alpha1.MemberStatus {
		changed := member
		change(&changed)
		return []etcdclusterv1alpha1.MemberStatus{changed}
	}
	for name, test := range map[string]struct {
		was   status
		state *system.State
		own   agent.Member
		want  status
	}{
		"one that votes": {status{}, state, running, status{
			ClusterID: "abc", Ready: 1, Endpoints: []string{"http://client-dc2-1", "http://client-dc3-1"},
			Members: with(func(m *etcdclusterv1alpha1.MemberStatus) {
				m.ClientURL, m.MemberID, m.Phase, m.Healthy, m.Leader, m.Version = "http://client-dc1-1", "1", "Voter", true, true, "3.7.0"
			}),
		}},
		"what is known of the system stays": {
			status{ClusterID: "abc", Endpoints: []string{"http://client-dc2-1"}},
			nil, process("dc1-1", agent.Prepared),
			status{ClusterID: "abc", Endpoints: []string{"http://client-dc2-1"}, Members: with(func(*etcdclusterv1alpha1.MemberStatus) {})},
		},
		"one that cannot start says why": {
			status{},
			nil, crashes,
			status{Members: with(func(m *etcdclusterv1alpha1.MemberStatus) { m.Problem = crashes.Problem })},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setting(t, test.state, "dc1")
			w.agent("dc1").members, w.regions["dc1"].cluster.Status = []agent.Member{test.own}, test.was
			r := w.observedRegion("dc1")
			r.report(&coordination.Result{View: r.view}, nil)
			ignored := cmpopts.IgnoreFields(status{}, "ObservedGeneration", "Conditions")
			if diff := cmp.Diff(test.want, r.cluster.Status, ignored); diff != "" {
				t.Error(diff)
			}
			ready := found(r, etcdclusterv1alpha1.ConditionReady)
			if test.own.Problem != "" && ready.Message != "No member of the system answers. dc1-1: "+test.own.Problem+"." {
				t.Error(ready.Message)
			}
		})
	}
}

// Different failures have different reasons, and the condition says what is in progress or waited for.
func TestReport(t *testing.T) {
	t.Parallel()
	doing := &coordination.Intent{Action: Restart, Holder: "dc2-operator", Steps: []coordination.Step{{Do: "restart", Members: []coordination.MemberID{"dc1-1"}}}}
	denied := &coordination.View{Denied: map[string][]string{"dc1-operator": {"dc2"}}}
	for name, test := range map[string]struct {
		err, unseen        error
		apart              bool // the operators could not reach the store
		result             coordination.Result
		ready, coordinated string
	}{
		"nothing":           {nil, nil, false, coordination.Result{}, etcdclusterv1alpha1.ReasonMembersMissing, coordination.ReasonSettled},
		"the store":         {errors.New("no leader"), nil, true, coordination.Result{}, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonStoreUnreachable},
		"the store is slow": {fmt.Errorf("so: %w", context.DeadlineExceeded), nil, false, coordination.Result{}, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonStoreUnreachable},
		"the agent refuses": {fmt.Errorf("preparing: %w", agent.ErrInvalid), nil, false, coordination.Result{}, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonAgentRefused},
		"the agent is away": {fmt.Errorf("%w: connection refused", errAgentUnreachable), nil, false, coordination.Result{}, etcdclusterv1alpha1.ReasonAgentUnreachable, ""},
		"the prefix":        {fmt.Errorf("so: %w", coordination.ErrPrefixTaken), nil, true, coordination.Result{}, etcdclusterv1alpha1.ReasonMembersMissing, coordination.ReasonPrefixTaken},
		"something else":    {errors.New("unknown"), nil, false, coordination.Result{}, etcdclusterv1alpha1.ReasonMembersMissing, coordination.ReasonFailed},
		"another system":    {nil, fmt.Errorf("so: %w", system.ErrOtherSystem), false, coordination.Result{}, etcdclusterv1alpha1.ReasonOtherSystem, coordination.ReasonSettled},
		"it is superseded":  {nil, nil, false, coordination.Result{Superseded: true}, etcdclusterv1alpha1.ReasonMembersMissing, coordination.ReasonSuperseded},
		"it is denied":      {nil, nil, false, coordination.Result{View: denied}, etcdclusterv1alpha1.ReasonMembersMissing, coordination.ReasonDenied},
		"it waits":          {nil, nil, false, coordination.Result{WaitReasons: []coordination.WaitReason{{For: "dc2-1", Reason: "it is not ready"}}}, etcdclusterv1alpha1.ReasonMembersMissing, coordination.ReasonWaiting},
		"one of them acts":  {nil, nil, false, coordination.Result{Intent: doing}, etcdclusterv1alpha1.ReasonMembersMissing, coordination.ReasonActing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setting(t, stateOf(unhealthyMember(member(1, "dc1-1")), member(2, "dc2-1"), member(3, "dc3-1")), "dc1")
			w.reconcile(1, "dc1")
			r := w.observedRegion("dc1")
			r.storeReachable = !test.apart
			if r.stateErr = test.unseen; r.stateErr != nil {
				r.state = nil
			}
			if test.result.View == nil {
				test.result.View = &coordination.View{}
			}
			healthy := etcdclusterv1alpha1.MemberStatus{ID: "dc1-1", Phase: etcdclusterv1alpha1.MemberVoter, Healthy: true}
			r.cluster.Status.Ready, r.cluster.Status.Members = 1, []etcdclusterv1alpha1.MemberStatus{healthy} // of an earlier report
			r.report(&test.result, test.err)
			if status := r.cluster.Status; status.Ready != 0 || status.Members[0].Healthy {
				t.Errorf("%d members are ready: %v", status.Ready, status.Members)
			}
			ready, coordinated := found(r, etcdclusterv1alpha1.ConditionReady), found(r, coordination.ConditionCoordinated)
			if ready.Reason != test.ready || coordinated.Reason != test.coordinated {
				t.Errorf("%s: %s, %s: %s", ready.Reason, ready.Message, coordinated.Reason, coordinated.Message)
			}
		})
	}
}

// A condition that becomes false with a new reason is reported as an event, once.
func TestNoteChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind          string
		before, after metav1.Condition
		want          []string
	}{
		"all is well": {
			etcdclusterv1alpha1.ConditionReady,
			metav1.Condition{},
			condition("", true, etcdclusterv1alpha1.ReasonMembersReady, ""), nil,
		},
		"one takes no part": {
			coordination.ConditionCoordinated, condition("", true, coordination.ReasonSettled, ""),
			condition("", false, coordination.ReasonMixedModes, "dc3 is in local mode"),
			[]string{"MixedModes: dc3 is in local mode"},
		},
		"one still takes no part": {
			coordination.ConditionCoordinated, condition("", false, coordination.ReasonMixedModes, "dc3 is in local mode"),
			condition("", false, coordination.ReasonMixedModes, "dc2, dc3 are in local mode"), nil,
		},
		"it is denied": {
			coordination.ConditionCoordinated, condition("", false, coordination.ReasonMixedModes, ""),
			condition("", false, coordination.ReasonDenied, "it is on a deny list"),
			[]string{"Denied: it is on a deny list"},
		},
		"it restarts": {
			etcdclusterv1alpha1.ConditionReady, condition("", true, etcdclusterv1alpha1.ReasonMembersReady, ""),
			condition("", false, etcdclusterv1alpha1.ReasonMembersMissing, "0 of 1"),
			[]string{"MembersMissing: 0 of 1"},
		},
		"its agent is away": {
			etcdclusterv1alpha1.ConditionReady, condition("", true, etcdclusterv1alpha1.ReasonMembersReady, ""),
			condition("", false, etcdclusterv1alpha1.ReasonAgentUnreachable, "reaching the agent"),
			[]string{"AgentUnreachable: reaching the agent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			r := &region{cluster: &etcdclusterv1alpha1.EtcdCluster{}, reporter: func(bool, string, string) {}}
			test.before.Type, test.after.Type = test.kind, test.kind
			if test.before.Reason != "" {
				r.set(test.before)
			}
			r.reporter = func(_ bool, reason, message string) { got = append(got, reason+": "+message) }
			r.set(test.after)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if c := found(r, test.kind); c.Reason != test.after.Reason || c.Message != test.after.Message {
				t.Errorf("got %v", c)
			}
		})
	}
}

// The text of the wait reasons changes at most once a second.
func TestWaitReasonsChangeAtMostOncePerSecond(t *testing.T) {
	t.Parallel()
	w := setting(t, three(), "dc1")
	w.agent("dc1").members = []agent.Member{changed("dc1-1")}
	w.regions["dc1"].cluster.Spec.AutomationOptions.QuietWindow = &metav1.Duration{Duration: 4700 * time.Millisecond}
	w.reconcile(2, "dc1")
	if got, want := w.results["dc1"].WaitSummary(), "Restart: another 5s without a change"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if again := w.results["dc1"].RequeueAfter; again != 4700*time.Millisecond {
		t.Errorf("it looks again after %s", again)
	}
}

// Each event of the coordination is reported, with the right type.
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
	note := controller.NewReporter(t.Context(), sink.NewRecorder(scheme, "etcdcluster"), cluster)
	note(false, "Executed", "Carried out restart dc1-1, under the token 1.")
	note(false, "Executed", "Carried out restart dc1-2, under the token 1.")
	note(true, "GaveUp", "Restart was given up: dc1-3 is not well again in time.")
	g.Eventually(func() map[string]string {
		found, err := r.Clientset.EventsV1().Events(r.Namespace).List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		got := map[string]string{}
		for _, event := range found.Items {
			got[event.Note] = event.Type + " " + event.Reason
		}
		return got
	}).WithTimeout(time.Minute).Should(Equal(map[string]string{
		"Carried out restart dc1-1, under the token 1.":          "Normal Executed",
		"Carried out restart dc1-2, under the token 1.":          "Normal Executed",
		"Restart was given up: dc1-3 is not well again in time.": "Warning GaveUp",
	}))
}
