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

func TestSamplesMatchRegions(t *testing.T) {
	for _, region := range regionNames {
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
	for mode, valid := range map[string]bool{"global": true, "local": true, "shard": false, "": false} {
		if err := (Options{Mode: mode}).Validate(); (err == nil) != valid {
			t.Errorf("%q: %v", mode, err)
		}
	}
}

// TestIssueCertificate expects one authority for all regions, also after a restart with kept data.
func TestIssueCertificate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "pki")
	var authority []byte
	for i, region := range []string{"dc1", "dc2", "dc1"} {
		flags, err := issueCertificate(folder, region, time.Now())
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
			t.Errorf("%d: the authority has changed or is missing: %v", i, err)
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

func TestReadRegion(t *testing.T) {
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
		Name: "dc1", Mode: "global", Desired: 2, Ready: 1, Reconciled: true, Waiting: "for the others",
		Members: []view.Member{
			{ID: "dc1-1", Phase: "Voter", Healthy: true, ArgsCurrent: true, PID: 9, Since: since, Args: "--a=1 --b=2"},
			{ID: "dc1-2", Phase: "Learner", Leader: true, Removing: true, PID: 8},
		},
	}
	got := view.Region{Name: "dc1"}
	read(&got, cluster, processes, "cd") // the leader reported by etcd takes precedence
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(){
		"the status is stale": func() { cluster.SetGeneration(4) },
		"the status is empty": func() { unstructured.RemoveNestedField(cluster.Object, "status") },
	} {
		change()
		got := view.Region{}
		read(&got, cluster, nil, "")
		if got.Reconciled {
			t.Errorf("%s: the region is reconciled", name)
		}
	}
}

// TestMembersOfStoppedAgentAreUnknown expects that the state of members is dropped when their agent
// stops.
func TestMembersOfStoppedAgentAreUnknown(t *testing.T) {
	region := func(pid int) view.Region {
		return view.Region{
			Agent: view.Instance{PID: pid}, Ready: 1, Reconciled: true,
			Members: []view.Member{{ID: "dc1-1", Phase: "Voter", Healthy: true, Leader: true, PID: 9}},
		}
	}
	running, stopped := region(7), region(0)
	clearIfAgentStopped(&running)
	clearIfAgentStopped(&stopped)
	if diff := cmp.Diff(region(7), running); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(view.Region{Members: []view.Member{{ID: "dc1-1", Phase: "Unknown"}}}, stopped); diff != "" {
		t.Error(diff)
	}
}

// TestOtherSystemsAreIgnored expects that members of other systems on the same agents are neither
// used as endpoints nor replaced.
func TestOtherSystemsAreIgnored(t *testing.T) {
	cluster := func(region, name string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": region, "name": name}}}
	}
	all := []unstructured.Unstructured{cluster("dc2", "orders"), cluster("dc1", "invoices"), cluster("dc1", "orders"), cluster("dc2", "zebra")}
	want := []unstructured.Unstructured{cluster("dc1", "orders"), cluster("dc2", "orders")}
	if diff := cmp.Diff(want, clustersOf(all, "orders")); diff != "" {
		t.Error(diff)
	}
}

// TestChangeNeedsAllRegions expects that a change of all regions is refused before the first region
// is changed.
func TestChangeNeedsAllRegions(t *testing.T) {
	var clusters []unstructured.Unstructured
	for i, region := range regionNames {
		if err := requireAllRegions(clusters, "orders"); err == nil || !strings.Contains(err.Error(), "EtcdCluster "+region+"/orders not found") {
			t.Errorf("with %d of %d regions: %v", i, len(regionNames), err)
		}
		clusters = append(clusters, unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": region}}})
	}
	if err := requireAllRegions(clusters, "orders"); err != nil {
		t.Error(err)
	}
}

func TestMarkForReplacement(t *testing.T) {
	for name, test := range map[string]struct {
		before   []any
		existing []string
		want     []any
	}{
		"the first":         {nil, []string{"dc1-1"}, []any{"dc1-1"}},
		"another is marked": {[]any{"dc1-2"}, []string{"dc1-1", "dc1-2"}, []any{"dc1-2", "dc1-1"}},
		"one was removed":   {[]any{"dc1-0"}, []string{"dc1-1"}, []any{"dc1-1"}},
		"already marked":    {[]any{"dc1-1"}, []string{"dc1-1"}, []any{"dc1-1"}},
		"no members known":  {[]any{"dc1-0"}, nil, []any{"dc1-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{}
			if test.before != nil {
				spec["replace"] = test.before
			}
			if err := markForReplacement(spec, test.existing, "dc1-1"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, spec["replace"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}
