package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// healthy are the facts of a ring with one shard, as far as these tests need them.
func healthy() *Facts {
	f := &Facts{Now: now}
	f.Version.Value = &version.Info{GitVersion: "v1.36.0"}
	declared := shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1}}
	declared.Spec.Resources = []shardingv1alpha1.RingResource{{GroupResource: shardingv1alpha1.GroupResource{Group: "example.com", Resource: "websites"}}}
	declared.Status.ObservedGeneration = 1
	declared.Status.Conditions = []metav1.Condition{{Type: shardingv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	f.Rings.Value = []shardingv1alpha1.ControllerRing{declared}
	f.Leases.Value = []coordinationv1.Lease{*lease("shard-0", time.Second)}
	f.Sharder.Namespace = "sharding-system"
	f.Sharder.Election.Value = lease("sharder", time.Second)
	f.Served.Value.Resources = map[schema.GroupResource]ServedResource{
		{Group: "example.com", Resource: "websites"}: {GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Website"}, Namespaced: true},
	}
	f.Namespaces.Value = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "project", Labels: map[string]string{"kubernetes.io/metadata.name": "project"}}}}
	return f
}

func lease(name string, renewedAgo time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(now.Add(-renewedAgo))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: "web"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(15)), AcquireTime: &renewed, RenewTime: &renewed},
	}
}

// result returns a check with the statuses of its findings.
func result(report *Report, name string) string {
	for _, check := range report.Checks {
		if check.Name == name {
			words := []string{string(check.Status)}
			for _, f := range check.Findings {
				words = append(words, string(f.Reason))
			}
			return strings.Join(words, " ")
		}
	}
	return "no such check"
}

var (
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("not allowed"))
	errHanging   = errors.New("the API server did not answer within 10s")
)

func TestEvaluate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Facts)
		check  string
		want   string
	}{
		"healthy sharder":   {func(*Facts) {}, checkSharder, "ok"},
		"healthy rings":     {func(*Facts) {}, checkRings, "ok"},
		"healthy leases":    {func(*Facts) {}, checkLeases, "ok"},
		"healthy resources": {func(*Facts) {}, checkResources, "ok"},
		"unknown version":   {func(f *Facts) { f.Version.Err = errForbidden }, checkServer, "unknown NotReadable"},
		"unknown rings are not missing rings": {func(f *Facts) {
			f.Rings = Read[[]shardingv1alpha1.ControllerRing]{Err: errForbidden}
		}, checkLeases, "unknown NotReadable"},
		"unknown rings do not make webhooks stale": {func(f *Facts) {
			f.Rings = Read[[]shardingv1alpha1.ControllerRing]{Err: errHanging}
		}, checkWebhooks, "unknown NotReadable"},
		"unknown leases are not missing shards": {func(f *Facts) {
			f.Leases = Read[[]coordinationv1.Lease]{Err: errForbidden}
		}, checkRings, "unknown NotReadable"},
		"unknown leases and clocks": {func(f *Facts) { f.Leases = Read[[]coordinationv1.Lease]{Err: errForbidden} }, checkClocks, "unknown NotReadable"},
		"a group that cannot be discovered is not missing": {func(f *Facts) {
			f.Served.Value = Served{Failed: map[string]error{"example.com": errHanging}}
		}, checkResources, "unknown NotReadable"},
		"the default selector": {func(f *Facts) { f.Namespaces.Value[0].Labels["kubernetes.io/metadata.name"] = "kube-system" }, checkResources, "warning SelectorMatchesNothing"},
		"no namespaces for cluster-scoped objects": {func(f *Facts) {
			f.Namespaces.Value = nil
			f.Served.Value.Resources[schema.GroupResource{Group: "example.com", Resource: "websites"}] = ServedResource{}
		}, checkResources, "ok"},
		"a silent shard is not available": {func(f *Facts) { f.Leases.Value[0] = *lease("shard-0", 2*time.Minute) }, checkRings, "failure RingHasNoShards"},
		"a shard whose clock is behind is available": {func(f *Facts) {
			f.Leases.Value[0] = *lease("shard-0", 2*time.Minute)
			f.Leases.Value[0].Labels[shardingv1alpha1.LabelState] = "ready"
		}, checkRings, "ok"},
		"a shard that was ready when the sharder stopped is not available": {func(f *Facts) {
			f.Leases.Value[0] = *lease("shard-0", 2*time.Minute)
			f.Leases.Value[0].Labels[shardingv1alpha1.LabelState] = "ready"
			f.Sharder.Election.Value = lease("sharder", 2*time.Minute)
		}, checkRings, "failure RingHasNoShards"},
		"a shard that is late is available": {func(f *Facts) { f.Leases.Value[0] = *lease("shard-0", 50*time.Second) }, checkRings, "ok"},
		"a leaving shard is not available": {func(f *Facts) {
			f.Leases.Value[0].Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: "true"}
		}, checkRings, "failure RingHasNoShards"},
		"a shard that has just left is normal": {func(f *Facts) {
			left := lease("shard-1", 30*time.Second)
			left.Spec.HolderIdentity = new("")
			f.Leases.Value = append(f.Leases.Value, *left)
		}, checkLeases, "ok"},
		"the old lease of a ring that is gone": {func(f *Facts) {
			f.Rings.Value = nil
			f.Leases.Value[0] = *lease("shard-0", time.Hour)
		}, checkLeases, "warning LeaseWithoutRing"},
		"a draining ring": {func(f *Facts) {
			f.Rings.Value[0].Status.Conditions[0] = metav1.Condition{
				Type: shardingv1alpha1.ConditionDrained, Status: metav1.ConditionFalse, Reason: shardingv1alpha1.ReasonDraining,
			}
		}, checkRings, "warning ConditionNotTrue"},
		"a condition that is unknown": {func(f *Facts) {
			f.Rings.Value[0].Status.Conditions[0].Status = metav1.ConditionUnknown
		}, checkRings, "warning ConditionNotTrue"},
		"a condition that repeats a finding": {func(f *Facts) {
			f.Served.Value.Resources = nil
			f.Rings.Value[0].Status.Conditions[0] = metav1.Condition{
				Type: shardingv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: shardingv1alpha1.ReasonUnknownResource,
			}
		}, checkRings, "ok"},
		"a new spec while no sharder leads": {func(f *Facts) {
			f.Sharder.Election.Value = nil
			f.Rings.Value[0].Generation = 2
		}, checkRings, "ok"},
		"a cluster without CRD and rings": {func(f *Facts) { f.Rings.Value, f.Leases.Value = nil, nil }, checkCRD, "failure CRDMissing"},
		"a cluster without rings needs no sharder": {func(f *Facts) {
			f.Rings.Value, f.Leases.Value, f.Sharder.Election.Value = nil, nil, nil
		}, checkSharder, "ok"},
		"a cluster whose rings have in-process sharders needs no CRD": {func(f *Facts) {
			election := lease("web-sharder", time.Second)
			election.Labels = map[string]string{shardingv1alpha1.LabelSharder: "web"}
			f.Rings.Value, f.Leases.Value = nil, append(f.Leases.Value, *election)
		}, checkCRD, "ok"},
		"a sharder without leader election": {func(f *Facts) {
			f.Sharder.Election.Value = nil
			ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			f.Sharder.Pods.Value = []corev1.Pod{{Status: corev1.PodStatus{Conditions: ready}}}
		}, checkSharder, "ok"},
		"a sharder whose pods cannot be read may run without leader election": {func(f *Facts) {
			f.Sharder.Election.Value = nil
			f.Sharder.Pods.Err = errForbidden
		}, checkSharder, "unknown NotReadable"},
		"the webhook of a ring": {func(*Facts) {}, checkWebhooks, "failure WebhookMissing"},
		"an in-process sharder needs no webhook for an unused ControllerRing": {func(f *Facts) {
			election := lease("web-sharder", time.Second)
			election.Labels = map[string]string{shardingv1alpha1.LabelSharder: "web"}
			f.Leases.Value, f.Sharder.Election.Value = append(f.Leases.Value, *election), nil
		}, checkWebhooks, "ok"},
		"optional permissions": {func(f *Facts) {
			f.Access.Value = []Access{{Question: Question{Ring: "web", Verb: "create", Resource: "events", Optional: true}}}
			f.ShardAccounts = map[string]Read[[]types.NamespacedName]{"web": {Value: make([]types.NamespacedName, 1)}}
			f.Sharder.Account = &types.NamespacedName{}
		}, checkPermissions, "warning ShardLacksPermission"},
		"other rings": {func(f *Facts) { f.Only, f.Leases.Value = []string{"other"}, nil }, checkRings, "ok"},
		"permissions that no account needs": {func(f *Facts) {
			f.Sharder.Account = &types.NamespacedName{Namespace: "a", Name: "b"}
			f.ShardAccounts = map[string]Read[[]types.NamespacedName]{"web": {Err: errHanging}}
		}, checkPermissions, "unknown NotReadable"},
		"an annotation that cannot be parsed is not judged": {func(f *Facts) {
			f.Leases.Value[0].Annotations = map[string]string{shardingv1alpha1.AnnotationResources: `[{"resource": "\u001b[31m"}]`}
		}, checkKinds, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			test.change(f)
			if got := result(Evaluate(f), test.check); got != test.want {
				t.Errorf("%s: got %q, want %q", test.check, got, test.want)
			}
		})
	}
}

// TestRingWithInProcessSharder has no ControllerRing, so no finding names one.
func TestRingWithInProcessSharder(t *testing.T) {
	f := healthy()
	election := lease("web-sharder", time.Second)
	election.Labels = map[string]string{shardingv1alpha1.LabelSharder: "web"}
	f.Rings.Value, f.Leases.Value = nil, append(f.Leases.Value, *election)
	f.Leases.Value[0].Annotations = map[string]string{
		shardingv1alpha1.AnnotationResources:         `[{"group":"example.com","resource":"websites"}]`,
		shardingv1alpha1.AnnotationNamespaceSelector: `{"matchLabels":{"budget":"true"}}`,
	}
	next := map[Reason]string{}
	for _, check := range Evaluate(f).Checks {
		for _, finding := range check.Findings {
			next[finding.Reason] = finding.Object + ": " + finding.Next
		}
	}
	want := map[Reason]string{
		ShardAccountUnknown: "ring web: name it with --shard-service-account NAMESPACE/NAME, " +
			"or ignore this if the shards run outside the cluster without a ServiceAccount",
		SelectorMatchesNothing: "ring web: label the namespaces, or correct shard.Options.NamespaceSelector: kubectl get namespaces --show-labels",
	}
	if diff := cmp.Diff(want, next); diff != "" {
		t.Error(diff)
	}
}

func TestCompareSchemas(t *testing.T) {
	field := func(fields map[string]any) map[string]any { return map[string]any{"properties": fields} }
	list := func(fields map[string]any) map[string]any { return map[string]any{"items": field(fields)} }
	expected := field(map[string]any{"spec": field(map[string]any{
		"both":  map[string]any{"type": "string"},
		"drain": field(map[string]any{"timeout": map[string]any{}}),
		"list":  list(map[string]any{"group": map[string]any{}, "resource": map[string]any{}}),
	})})
	installed := field(map[string]any{"spec": field(map[string]any{
		"both": map[string]any{"type": "integer"},
		"list": list(map[string]any{"group": map[string]any{}, "weight": map[string]any{}}),
	}), "other": map[string]any{}})
	missing, unknown := compareSchemas(expected, installed)
	if diff := cmp.Diff([]string{"spec.drain", "spec.list[].resource"}, missing); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"other", "spec.list[].weight"}, unknown); diff != "" {
		t.Error(diff)
	}
	if missing, unknown := compareSchemas(expected, expected); len(missing)+len(unknown) > 0 {
		t.Errorf("a schema differs from itself: %v, %v", missing, unknown)
	}
}

func TestQuestions(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
		{APIGroups: []string{"example.com"}, Resources: []string{"websites/status"}, Verbs: []string{"patch"}, ResourceNames: []string{"a", "b"}},
	}
	questions := questionsOf([]runtime.Object{&rbacv1.Role{Rules: rules}, &rbacv1.ClusterRole{Rules: rules[:1]}}, Question{Ring: "web"}, "here")
	var got []string
	for _, q := range questions {
		got = append(got, fmt.Sprintf("%s: %s %s in %q", q.Ring, q.Verb, q.qualifiedResource(), q.Namespace))
	}
	want := []string{
		`web: create events in "here"`, `web: create events.events.k8s.io in "here"`,
		`web: patch websites/status.example.com a in "here"`, `web: patch websites/status.example.com b in "here"`,
		`web: create events in ""`, `web: create events.events.k8s.io in ""`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestQuestionsOfRing has a ring with an in-process sharder, which reads namespaces only for a selector of other labels than
// their names.
func TestQuestionsOfRing(t *testing.T) {
	f := healthy()
	election := lease("web-sharder", time.Second)
	election.Labels = map[string]string{shardingv1alpha1.LabelSharder: "web"}
	f.Rings.Value, f.Leases.Value = nil, append(f.Leases.Value, *election)
	ask := func(selector, verb, resource string) (asked, optional bool) {
		f.Leases.Value[0].Annotations = map[string]string{
			shardingv1alpha1.AnnotationInstance: "i", shardingv1alpha1.AnnotationNamespaceSelector: selector,
			shardingv1alpha1.AnnotationResources: `[{"group":"example.com","resource":"websites"}]`,
		}
		for _, q := range f.rings()[0].questions(types.NamespacedName{Namespace: "operators", Name: "operator"}) {
			if q.Verb == verb && q.Resource == resource {
				return true, q.Optional
			}
		}
		return false, false
	}
	const byName, byLabel = `{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["a"]}]}`, `{"matchLabels":{"project":"true"}}`
	for name, test := range map[string]struct {
		selector, verb, resource string
		asked, optional          bool
	}{
		"namespaces, by name":  {byName, "list", "namespaces", false, false},
		"namespaces, by label": {byLabel, "list", "namespaces", true, false},
		"objects":              {byName, "patch", "websites", true, false},
		"events":               {byName, "create", "events", true, true},
		"ControllerRings":      {byName, "get", "controllerrings", true, true},
		"Leases":               {byName, "list", "leases", true, false},
	} {
		if asked, optional := ask(test.selector, test.verb, test.resource); asked != test.asked || optional != test.optional {
			t.Errorf("%s: asked %t, optional %t", name, asked, optional)
		}
	}
}

// TestQuestionsInNamespaces asks again about the namespaces that the ring selects, unless there are many.
func TestQuestionsInNamespaces(t *testing.T) {
	denied := Question{Ring: "web", Verb: "patch", Group: "example.com", Resource: "websites"}
	inNamespace, clusterScoped, sharder := denied, denied, denied
	inNamespace.Namespace, clusterScoped.Resource, sharder.Sharder = "operators", "themes", true
	f := healthy()
	f.Access.Value = []Access{{denied, true}, {inNamespace, false}, {clusterScoped, false}, {sharder, false}, {denied, false}}
	asked := denied
	asked.Namespace = "project"
	if diff := cmp.Diff(map[int][]Question{4: {asked}}, f.inNamespaces()); diff != "" {
		t.Error(diff)
	}
	for i := range maxAccessNamespaces {
		f.Namespaces.Value = append(f.Namespaces.Value, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}})
	}
	if got := f.inNamespaces(); len(got) > 0 {
		t.Errorf("in many namespaces: %v", got)
	}
}

func TestExpiring(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		age, left time.Duration
		want      bool
	}{
		"not renewed at a third":                       {75 * day, 14 * day, true},
		"about to be renewed":                          {60 * day, 30 * day, false},
		"an authority of ten years, long before":       {9 * 365 * day, 365 * day, false},
		"an authority of ten years, in the last month": {10 * 365 * day, 29 * day, true},
	} {
		if got := isExpiring(&x509.Certificate{NotBefore: now.Add(-test.age), NotAfter: now.Add(test.left)}, now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestCallProgram(t *testing.T) {
	report := &Report{Checks: []Check{{Findings: []Finding{{Next: "ringmaster role web | kubectl apply -f -"}}}}}
	report.callProgram("")
	report.callProgram("kubectl ring")
	if got := report.Checks[0].Findings[0].Next; got != "kubectl ring role web | kubectl apply -f -" {
		t.Error(got)
	}
}

func TestWrite(t *testing.T) {
	report := &Report{Checks: []Check{
		{Name: "server", Message: "Kubernetes v1.36.0"},
		{Name: "webhooks"},
		{Name: "clocks"},
	}}
	report.Checks[1].add(
		Finding{Reason: WebhookStale, Status: Warning, Object: "MutatingWebhookConfiguration/old", Cause: "stale", Next: "delete it"},
		Finding{Reason: WebhookMissing, Status: Failure, Object: "MutatingWebhookConfiguration/new", Cause: "not found", Next: "wait"})
	report.Checks[2].unreadable("Leases", errForbidden)
	report.summarize()
	var text strings.Builder
	if err := report.Write(&text, Text, false); err != nil {
		t.Fatal(err)
	}
	const want = `
ok       server       Kubernetes v1.36.0
failure  webhooks     2 findings
  failure  MutatingWebhookConfiguration/new: not found
           next: wait
  warning  MutatingWebhookConfiguration/old: stale
           next: delete it
unknown  clocks       1 finding
  unknown  Leases: cannot be read: things is forbidden: not allowed
           next: ask an administrator to apply 'ringmaster doctor --print-role' and to bind it to you

1 failure, 1 warning and 1 unknown in 3 checks.
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), text.String()); diff != "" {
		t.Error(diff)
	}
	var coloured strings.Builder
	if err := report.Write(&coloured, Text, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(coloured.String(), "\x1b[31mfailure\x1b[0m") {
		t.Error("the failure has no colour")
	}
	for format, contains := range map[Format]string{JSON: `"reason": "WebhookMissing"`, YAML: "reason: WebhookMissing"} {
		var out strings.Builder
		if err := report.Write(&out, format, false); err != nil || !strings.Contains(out.String(), contains) {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
	}
}
