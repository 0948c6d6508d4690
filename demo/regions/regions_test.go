package regions

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ringmaster-project/ringmaster/demo/view"
)

func TestSamplesFit(t *testing.T) {
	for _, region := range names {
		object, err := sample(region)
		if err != nil {
			t.Fatal(err)
		}
		prefix, _, _ := unstructured.NestedString(object.Object, "spec", "processGroupIDPrefix")
		if object.GetNamespace() != region || prefix != region || object.GroupVersionKind() != kind {
			t.Errorf("%s: %s in %s with the prefix %s", region, object.GroupVersionKind(), object.GetNamespace(), prefix)
		}
	}
}

func TestValidate(t *testing.T) {
	for mode, well := range map[string]bool{"global": true, "local": true, "shard": false, "": false} {
		if err := (Options{Mode: mode}).Validate(); (err == nil) != well {
			t.Errorf("%q: %v", mode, err)
		}
	}
}

// The certificates of all regions, also those of a later start on kept data, are signed by one authority.
func TestCertify(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "pki")
	var authority []byte
	for i, region := range []string{"dc1", "dc2", "dc1"} {
		flags, err := certify(folder, region, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"--peer-cert=" + filepath.Join(folder, region+".crt"), "--peer-key=" + filepath.Join(folder, region+".key"),
			"--peer-ca=" + filepath.Join(folder, "ca.crt"),
		}
		if diff := cmp.Diff(want, flags); diff != "" {
			t.Error(diff)
		}
		found, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
		if err != nil || i > 0 && !bytes.Equal(found, authority) {
			t.Errorf("%d: the authority is another one, or there is none: %v", i, err)
		}
		authority = found
		pair, err := tls.LoadX509KeyPair(filepath.Join(folder, region+".crt"), filepath.Join(folder, region+".key"))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(found)
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	since := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"generation": int64(3)},
		"spec":     map[string]any{"members": int64(2), "automationOptions": map[string]any{"synchronizationMode": "global"}},
		"status": map[string]any{
			"observedGeneration": int64(3), "ready": int64(1), "waiting": "for the others",
			"conditions": []any{
				map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "Progressing", "status": "False"},
			},
			"members": []any{
				map[string]any{
					"id": "dc1-1", "memberID": "ab", "phase": "Voter", "healthy": true, "leader": true, "argsCurrent": true, "pid": int64(7),
				},
				map[string]any{"id": "dc1-2", "memberID": "cd", "phase": "Learner", "removing": true, "pid": int64(8)},
			},
		},
	}}
	processes := map[string]member{"dc1-1": {ID: "dc1-1", PID: 9, Since: since, Applied: map[string]string{"b": "2", "a": "1"}}}
	want := view.Region{
		Name: "dc1", Mode: "global", Wanted: 2, Ready: 1, Settled: true, Waiting: "for the others",
		Members: []view.Member{
			{ID: "dc1-1", Phase: "Voter", Healthy: true, ArgsCurrent: true, PID: 9, Since: since, Args: "--a=1 --b=2"},
			{ID: "dc1-2", Phase: "Learner", Leader: true, Removing: true, PID: 8},
		},
	}
	got := view.Region{Name: "dc1"}
	read(&got, cluster, processes, "cd") // who leads is known better by who asks the system itself
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(){
		"an older generation was seen": func() { cluster.SetGeneration(4) },
		"nothing is said":              func() { unstructured.RemoveNestedField(cluster.Object, "status") },
	} {
		change()
		got := view.Region{}
		read(&got, cluster, nil, "")
		if got.Settled {
			t.Errorf("%s: it is settled", name)
		}
	}
}

// Nothing is known of members whose agent is not there.
func TestDoubt(t *testing.T) {
	region := func(pid int) view.Region {
		return view.Region{
			Agent: view.Instance{PID: pid}, Ready: 1, Settled: true,
			Members: []view.Member{{ID: "dc1-1", Phase: "Voter", Healthy: true, Leader: true, PID: 9}},
		}
	}
	there, gone := region(7), region(0)
	doubt(&there)
	doubt(&gone)
	if diff := cmp.Diff(region(7), there); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(view.Region{Members: []view.Member{{ID: "dc1-1", Phase: "Unknown"}}}, gone); diff != "" {
		t.Error(diff)
	}
}

// Members of another system are on the same agents: clients of the demo's own must not be sent to them, and 'ringmaster demo replace' must
// not name them.
func TestOtherSystemsAreLeftOut(t *testing.T) {
	cluster := func(region, name string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": region, "name": name}}}
	}
	all := []unstructured.Unstructured{cluster("dc2", "orders"), cluster("dc1", "invoices"), cluster("dc1", "orders"), cluster("dc2", "zebra")}
	want := []unstructured.Unstructured{cluster("dc1", "orders"), cluster("dc2", "orders")}
	if diff := cmp.Diff(want, clustersOf(all, "orders")); diff != "" {
		t.Error(diff)
	}
}

// TestChangeNeedsAllRegions refuses a change of all regions before the first one is changed.
func TestChangeNeedsAllRegions(t *testing.T) {
	var clusters []unstructured.Unstructured
	for i, region := range names {
		if err := complete(clusters, "orders"); err == nil || !strings.Contains(err.Error(), "EtcdCluster orders of "+region+" is missing") {
			t.Errorf("with %d of %d regions: %v", i, len(names), err)
		}
		clusters = append(clusters, unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": region}}})
	}
	if err := complete(clusters, "orders"); err != nil {
		t.Error(err)
	}
}

func TestGiveUp(t *testing.T) {
	for name, test := range map[string]struct {
		before []any
		there  []string
		want   []any
	}{
		"the first":            {nil, []string{"dc1-1"}, []any{"dc1-1"}},
		"one goes already":     {[]any{"dc1-2"}, []string{"dc1-1", "dc1-2"}, []any{"dc1-2", "dc1-1"}},
		"one has gone":         {[]any{"dc1-0"}, []string{"dc1-1"}, []any{"dc1-1"}},
		"it is to go already":  {[]any{"dc1-1"}, []string{"dc1-1"}, []any{"dc1-1"}},
		"nobody is known yet ": {[]any{"dc1-0"}, nil, []any{"dc1-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{}
			if test.before != nil {
				spec["replace"] = test.before
			}
			if err := giveUp(spec, test.there, "dc1-1"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, spec["replace"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}
