package config

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// nodeWithQuotedFolder returns a node whose folder every format has to quote.
func nodeWithQuotedFolder(t *testing.T) Node {
	t.Helper()
	return Node{
		Folder:       Folder(filepath.Join(t.TempDir(), `it's "a: #node`)),
		Assets:       "/opt/kubernetes",
		CNIPlugins:   "/usr/lib/cni",
		SandboxImage: "docker.io/ringmaster/pause:dev",
	}
}

func TestYAMLIsQuoted(t *testing.T) {
	node := nodeWithQuotedFolder(t)
	for name, want := range map[string]map[string]any{
		Kubelet: {
			"cgroupRoot":               "/" + node.Folder.Cgroup(),
			"tlsCertFile":              node.Folder.PKI("kubelet.crt"),
			"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
			"address":                  Address,
		},
		Proxy:          {"mode": "nftables", "hostnameOverride": NodeName, "clusterCIDR": PodRange},
		"cni.conflist": {"name": "ringmaster"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := node.render(name)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := yaml.UnmarshalStrict([]byte(content), &got); err != nil {
				t.Fatalf("%v in:\n%s", err, content)
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s is %v, want %v", key, got[key], value)
				}
			}
		})
	}
}

func TestCNIConfigurationIsJSON(t *testing.T) {
	content, err := nodeWithQuotedFolder(t).render("cni.conflist")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid([]byte(content)) {
		t.Errorf("not JSON:\n%s", content)
	}
}

func TestContainerdHasImageAndPlugins(t *testing.T) {
	content, err := nodeWithQuotedFolder(t).render(Containerd)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`sandbox_image = "docker.io/ringmaster/pause:dev"`,
		`bin_dir = "/usr/lib/cni"`,
		`address = "/run/containerd/containerd.sock"`,
	} {
		if !strings.Contains(content, line+"\n") {
			t.Errorf("no line %s in:\n%s", line, content)
		}
	}
}

// TestKubectlPassesArgumentsOn replaces the program by a script that prints its arguments.
func TestKubectlPassesArgumentsOn(t *testing.T) {
	node := nodeWithQuotedFolder(t)
	if err := node.Write(); err != nil {
		t.Fatal(err)
	}
	printer := "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"
	if err := os.WriteFile(node.Folder.Program(), []byte(printer), 0o700); err != nil {
		t.Fatal(err)
	}
	printed, err := exec.Command(node.Folder.Kubectl(), "get", "pods", "a b").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	want := []string{
		"exec", "--dir", string(node.Folder), "--", "/opt/kubernetes/kubectl",
		"--kubeconfig", node.Folder.Kubeconfig(), "--cache-dir", node.Folder.Cache(), "get", "pods", "a b",
	}
	if got := strings.Split(strings.TrimSuffix(string(printed), "\n"), "\n"); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("called with %q, want %q", got, want)
	}
}
