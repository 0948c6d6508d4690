package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := etcdclusterv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"examples/etcdcluster/config/crds"}})
}

// validCluster is a valid cluster.
func validCluster(r *rig.Rig) *etcdclusterv1alpha1.EtcdCluster {
	return &etcdclusterv1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "orders-", Namespace: r.Namespace},
		Spec:       etcdclusterv1alpha1.EtcdClusterSpec{Bootstrap: true, Members: 1, ProcessGroupIDPrefix: "dc1"},
	}
}

func many[T ~string](n int) []T {
	var all []T
	for i := range n {
		all = append(all, T(fmt.Sprintf("a%d", i)))
	}
	return all
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

type spec = etcdclusterv1alpha1.EtcdClusterSpec

// specs are changes of a valid spec, and a part of the error message, or "".
var specs = map[string]struct {
	change func(*spec)
	want   string
}{
	"a good one":              {func(*spec) {}, ""},
	"no members":              {func(s *spec) { s.Members = 0 }, ""},
	"nine members":            {func(s *spec) { s.Members = 9 }, ""},
	"ten members":             {func(s *spec) { s.Members = 10 }, "spec.members"},
	"less than no members":    {func(s *spec) { s.Members = -1 }, "spec.members"},
	"a system":                {func(s *spec) { s.System = "orders" }, ""},
	"a system with a slash":   {func(s *spec) { s.System = "a/b" }, "spec.system"},
	"no prefix":               {func(s *spec) { s.ProcessGroupIDPrefix = "" }, "spec.processGroupIDPrefix"},
	"a prefix with a slash":   {func(s *spec) { s.ProcessGroupIDPrefix = "dc/1" }, "spec.processGroupIDPrefix"},
	"a prefix in capitals":    {func(s *spec) { s.ProcessGroupIDPrefix = "DC1" }, "spec.processGroupIDPrefix"},
	"the longest prefix":      {func(s *spec) { s.ProcessGroupIDPrefix = etcdclusterv1alpha1.Prefix(strings.Repeat("a", 40)) }, ""},
	"a prefix too long":       {func(s *spec) { s.ProcessGroupIDPrefix = etcdclusterv1alpha1.Prefix(strings.Repeat("a", 41)) }, "spec.processGroupIDPrefix"},
	"joins":                   {func(s *spec) { s.Bootstrap, s.Seeds = false, []string{"http://127.0.0.1:2379"} }, ""},
	"joins nobody":            {func(s *spec) { s.Bootstrap = false }, "add seeds"},
	"a seed without a scheme": {func(s *spec) { s.Seeds = []string{"127.0.0.1:2379"} }, "spec.seeds"},
	"a seed with a path":      {func(s *spec) { s.Seeds = []string{"http://a:1/b"} }, "spec.seeds"},
	"a seed twice":            {func(s *spec) { s.Seeds = []string{"http://a:1", "http://a:1"} }, "Duplicate"},
	"args":                    {func(s *spec) { s.Args = args("heartbeat-interval", "max-request-bytes", "log-level") }, ""},
	"a version":               {func(s *spec) { s.Version = "3.6.1" }, ""},
	"a version before it is":  {func(s *spec) { s.Version = "3.7.0-rc.1" }, ""},
	"a version that is none":  {func(s *spec) { s.Version = "latest" }, "spec.version"},
	"most args":               {func(s *spec) { s.Args = args(many[string](32)...) }, ""},
	"too many args":           {func(s *spec) { s.Args = args(many[string](33)...) }, "spec.args"},
	"an arg with dashes":      {func(s *spec) { s.Args = args("--log-level") }, "without leading dashes"},
	"an arg with more in it":  {func(s *spec) { s.Args = args("log-level=x") }, "without leading dashes"},
	"a line break in an arg":  {func(s *spec) { s.Args = args("log-level\n") }, "without leading dashes"},
	"a very long arg":         {func(s *spec) { s.Args = args(strings.Repeat("a", 65)) }, "without leading dashes"},
	"a very long value": {func(s *spec) {
		s.Args = map[string]etcdclusterv1alpha1.ArgValue{"a": etcdclusterv1alpha1.ArgValue(strings.Repeat("a", 257))}
	}, "spec.args"},
	"its name":                    {func(s *spec) { s.Args = args("name") }, "the agent sets name"},
	"its data":                    {func(s *spec) { s.Args = args("data-dir") }, "the agent sets name"},
	"its log of writes":           {func(s *spec) { s.Args = args("wal-dir") }, "the agent sets name"},
	"all args in a file":          {func(s *spec) { s.Args = args("config-file") }, "the agent sets name"},
	"a cluster of its own":        {func(s *spec) { s.Args = args("force-new-cluster") }, "the agent sets name"},
	"its first cluster":           {func(s *spec) { s.Args = args("initial-cluster") }, "begin with initial-"},
	"where it listens":            {func(s *spec) { s.Args = args("listen-client-urls") }, "begin with initial-"},
	"where it is found":           {func(s *spec) { s.Args = args("advertise-client-urls") }, "begin with initial-"},
	"a discovery":                 {func(s *spec) { s.Args = args("discovery") }, "begin with initial-"},
	"its peers' certificates":     {func(s *spec) { s.Args = args("peer-trusted-ca-file") }, "begin with initial-"},
	"too many to replace":         {func(s *spec) { s.Replace = many[etcdclusterv1alpha1.MemberID](17) }, "spec.replace"},
	"replaces a path":             {func(s *spec) { s.Replace = []etcdclusterv1alpha1.MemberID{"../dc1"} }, "spec.replace"},
	"replaces some":               {func(s *spec) { s.Replace = []etcdclusterv1alpha1.MemberID{"dc1-1", "dc1-2"} }, ""},
	"lost regions":                {func(s *spec) { s.LostRegions = []etcdclusterv1alpha1.Prefix{"dc2", "dc3"} }, ""},
	"lost itself":                 {func(s *spec) { s.LostRegions = []etcdclusterv1alpha1.Prefix{"dc1"} }, "declare itself lost"},
	"too many lost regions":       {func(s *spec) { s.LostRegions = many[etcdclusterv1alpha1.Prefix](9) }, "spec.lostRegions"},
	"too many regions":            {func(s *spec) { s.Regions = many[etcdclusterv1alpha1.Prefix](17) }, "spec.regions"},
	"a mode that there is":        {func(s *spec) { s.AutomationOptions.SynchronizationMode = "global" }, ""},
	"a mode that there is not":    {func(s *spec) { s.AutomationOptions.SynchronizationMode = "lunar" }, "synchronizationMode"},
	"no quiet window":             {func(s *spec) { s.AutomationOptions.QuietWindow = duration(0) }, ""},
	"the longest quiet window":    {func(s *spec) { s.AutomationOptions.QuietWindow = duration(time.Hour) }, ""},
	"a quiet window of fractions": {func(s *spec) { s.AutomationOptions.QuietWindow = duration(1500 * time.Millisecond) }, ""},
	"too long a quiet window":     {func(s *spec) { s.AutomationOptions.QuietWindow = duration(time.Hour + time.Second) }, "at most 1h"},
	"a negative quiet window":     {func(s *spec) { s.AutomationOptions.QuietWindow = duration(-time.Second) }, "not negative"},
	"goes on": {func(s *spec) {
		s.AutomationOptions.Missing, s.AutomationOptions.GoOnAfter = "GoOn", duration(time.Minute)
	}, ""},
	"goes on without saying when":  {func(s *spec) { s.AutomationOptions.Missing = "GoOn" }, "go together"},
	"says when and does not go on": {func(s *spec) { s.AutomationOptions.GoOnAfter = duration(time.Minute) }, "go together"},
	"goes on at once": {func(s *spec) {
		s.AutomationOptions.Missing, s.AutomationOptions.GoOnAfter = "GoOn", duration(0)
	}, "must be positive"},
	"a policy that there is not": {func(s *spec) { s.AutomationOptions.Missing = "Panic" }, "missing"},
	"a deny list":                {func(s *spec) { s.AutomationOptions.DenyList = []string{"dc2", "dc3.example"} }, ""},
	"denies a path":              {func(s *spec) { s.AutomationOptions.DenyList = []string{"a/b"} }, "denyList"},
	"denies too many":            {func(s *spec) { s.AutomationOptions.DenyList = many[string](17) }, "denyList"},
}

func args(names ...string) map[string]etcdclusterv1alpha1.ArgValue {
	all := map[string]etcdclusterv1alpha1.ArgValue{}
	for _, name := range names {
		all[name] = "1"
	}
	return all
}

// TestSpecs validates specs with a real API server.
func TestSpecs(t *testing.T) {
	r := rig.Shared(t)
	for name, test := range specs {
		t.Run(name, func(t *testing.T) {
			cluster := validCluster(r)
			test.change(&cluster.Spec)
			judge(t, r.Client.Create(t.Context(), cluster), test.want)
		})
	}
}

// TestDurations accepts durations in different forms.
func TestDurations(t *testing.T) {
	r := rig.Shared(t)
	for text, want := range map[string]string{
		"90s": "", "1m30s": "", "0s": "", "500ms": "",
		"5": "quietWindow", "soon": "quietWindow", "1h1ms": "at most 1h", strings.Repeat("1s", 17): "quietWindow",
	} {
		t.Run(text, func(t *testing.T) {
			cluster := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"bootstrap": true, "members": int64(1), "processGroupIDPrefix": "dc1",
				"automationOptions": map[string]any{"quietWindow": text},
			}}}
			cluster.SetGroupVersionKind(etcdclusterv1alpha1.SchemeGroupVersion.WithKind("EtcdCluster"))
			cluster.SetGenerateName("orders-")
			cluster.SetNamespace(r.Namespace)
			judge(t, r.Client.Create(t.Context(), cluster), want)
		})
	}
}

// TestDefaults compares the defaults of the API server with those of the code.
func TestDefaults(t *testing.T) {
	r := rig.Shared(t)
	cluster := validCluster(r)
	bare := cluster.Spec.AutomationOptions
	if bare.Quiet() != 5*time.Second {
		t.Errorf("without the schema: %s", bare.Quiet())
	}
	if err := r.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	want := etcdclusterv1alpha1.AutomationOptions{
		SynchronizationMode: "local", QuietWindow: duration(5 * time.Second), Missing: "Wait",
	}
	if diff := cmp.Diff(want, cluster.Spec.AutomationOptions); diff != "" {
		t.Error(diff)
	}
	if got := cluster.SystemName(); got != cluster.Name {
		t.Errorf("the system is called %q", got)
	}
}

// TestSystemIsImmutable tries to change the system of an object.
func TestSystemIsImmutable(t *testing.T) {
	r := rig.Shared(t)
	for name, test := range map[string]struct{ from, to, want string }{
		"the same":    {"orders", "orders", ""},
		"another":     {"orders", "invoices", "the system is immutable"},
		"one at last": {"", "orders", "the system is immutable"},
		"none again":  {"orders", "", "the system is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := validCluster(r)
			cluster.Spec.System = test.from
			if err := r.Client.Create(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			cluster.Spec.System, cluster.Spec.Members, cluster.Spec.ProcessGroupIDPrefix = test.to, 3, "unicorn"
			judge(t, r.Client.Update(t.Context(), cluster), test.want)
		})
	}
}

// TestStatus validates statuses with a real API server.
func TestStatus(t *testing.T) {
	r := rig.Shared(t)
	cluster := validCluster(r)
	if err := r.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	before := cluster.Generation
	cluster.Status = etcdclusterv1alpha1.EtcdClusterStatus{
		ObservedGeneration: before,
		Members: []etcdclusterv1alpha1.MemberStatus{{
			ID: "dc1-1", MemberID: "8e9e05c52164694d", ClientURL: "http://127.0.0.1:1", PeerURL: "http://127.0.0.1:2",
			Phase: etcdclusterv1alpha1.MemberVoter, Healthy: true, Leader: true, PID: 1, ArgsCurrent: true,
		}},
		Ready: 1, Waiting: "nothing",
	}
	judge(t, r.Client.Status().Update(t.Context(), cluster), "")
	for want, change := range map[string]func(*etcdclusterv1alpha1.EtcdClusterStatus){
		"phase":     func(s *etcdclusterv1alpha1.EtcdClusterStatus) { s.Members[0].Phase = "Happy" },
		"memberID":  func(s *etcdclusterv1alpha1.EtcdClusterStatus) { s.Members[0].MemberID = "xyz" },
		"Duplicate": func(s *etcdclusterv1alpha1.EtcdClusterStatus) { s.Members = append(s.Members, s.Members[0]) },
		"waiting":   func(s *etcdclusterv1alpha1.EtcdClusterStatus) { s.Waiting = strings.Repeat("a", 1025) },
	} {
		wrong := cluster.DeepCopy()
		change(&wrong.Status)
		judge(t, r.Client.Status().Update(t.Context(), wrong), want)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil || cluster.Generation != before {
		t.Errorf("a status must not change the generation of an EtcdCluster: %v, generation %d", err, cluster.Generation)
	}
}

func judge(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestColumns reads the columns of 'kubectl get etcdclusters' from the API server.
func TestColumns(t *testing.T) {
	r := rig.Shared(t)
	found, err := r.Clientset.Discovery().RESTClient().Get().
		AbsPath("/apis/etcdcluster.timebertt.dev/v1alpha1/etcdclusters").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(found, table); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			columns = append(columns, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Members", "Ready", "Mode", "Waiting", "Age"}, columns); diff != "" {
		t.Error(diff)
	}
}

// TestOwns compares IDs with similar prefixes.
func TestOwns(t *testing.T) {
	for name, test := range map[string]struct {
		prefix etcdclusterv1alpha1.Prefix
		id     etcdclusterv1alpha1.MemberID
		want   bool
	}{
		"its own":               {"dc1", "dc1-1", true},
		"a longer prefix":       {"dc1", "dc10-1", false},
		"a prefix with more":    {"dc1", "dc1-b-1", false},
		"its own with a hyphen": {"dc1-b", "dc1-b-1", true},
		"the prefix alone":      {"dc1", "dc1", false},
		"nothing behind it":     {"dc1", "dc1-", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.prefix.Owns(test.id); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
