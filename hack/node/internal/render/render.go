// Package render writes the configuration of a node's programs. It is made from templates that
// read like the files they become.
package render

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
)

//go:embed templates
var sources embed.FS

// templates see a Node, and as functions what is the same for all nodes.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"json":             quoteJSON,
	"shell":            quoteShell,
	"address":          func() string { return layout.Address },
	"nodeName":         func() string { return layout.NodeName },
	"podRange":         func() string { return layout.PodRange },
	"containerdSocket": func() string { return layout.ContainerdSocket },
	"proxyHealth":      func() string { return ProxyHealth },
}).ParseFS(sources, "templates/*"))

// quoteJSON quotes for JSON, YAML and TOML, whose double-quoted strings agree in all that a path or
// an address can hold.
func quoteJSON(value string) (string, error) {
	quoted, err := json.Marshal(value)
	return string(quoted), err
}

func quoteShell(value string) string {
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// Node is what differs from one node to the next.
type Node struct {
	Folder layout.Folder
	// Assets is the folder with Kubernetes' programs, CNIPlugins the one with the CNI's.
	Assets, CNIPlugins string
	// SandboxImage is the image of the first container of each pod.
	SandboxImage string
}

// ProxyHealth is where kube-proxy tells how it is.
const ProxyHealth = "127.0.0.1:10256"

// The names of configuration files.
const (
	Containerd      = "containerd.toml"
	Kubelet         = "kubelet.yaml"
	Proxy           = "kube-proxy.yaml"
	ResolvConf      = "resolv.conf"
	KubeletIdentity = "kubelet.kubeconfig"
	ProxyIdentity   = "kube-proxy.kubeconfig"
)

// Kubectl is the path of the real kubectl.
func (n Node) Kubectl() string { return filepath.Join(n.Assets, "kubectl") }

// file is one file to write.
type file struct {
	template, path string
	mode           os.FileMode
}

func (n Node) files() []file {
	return []file{
		{Containerd, n.Folder.Config(Containerd), 0o600},
		{Kubelet, n.Folder.Config(Kubelet), 0o600},
		{Proxy, n.Folder.Config(Proxy), 0o600},
		{"cni.conflist", filepath.Join(n.Folder.CNI(), "10-ringmaster.conflist"), 0o600},
		{"kubectl", n.Folder.Kubectl(), 0o700},
	}
}

// Write writes all files.
func (n Node) Write() error {
	if err := os.MkdirAll(n.Folder.CNI(), 0o700); err != nil {
		return err
	}
	for _, f := range n.files() {
		content, err := n.render(f.template)
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.path, err)
		}
		if err := os.WriteFile(f.path, []byte(content), f.mode); err != nil {
			return err
		}
	}
	// Pods on the host's network get this one; it must not be the machine's, whose servers cannot
	// be reached from here.
	return os.WriteFile(n.Folder.Config(ResolvConf), nil, 0o600)
}

func (n Node) render(name string) (string, error) {
	var out strings.Builder
	err := templates.ExecuteTemplate(&out, name, n)
	return out.String(), err
}
