package config

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var sources embed.FS

// templates have a Node as data, and constants of all nodes as functions.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"json":             quoteJSON,
	"shell":            quoteShell,
	"address":          func() string { return Address },
	"nodeName":         func() string { return NodeName },
	"podRange":         func() string { return PodRange },
	"containerdSocket": func() string { return ContainerdSocket },
	"proxyHealth":      func() string { return ProxyHealth },
}).ParseFS(sources, "templates/*"))

// quoteJSON quotes for JSON, YAML and TOML, which agree on double-quoted strings for paths and
// addresses.
func quoteJSON(value string) (string, error) {
	quoted, err := json.Marshal(value)
	return string(quoted), err
}

func quoteShell(value string) string {
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// Node has the parameters of the configuration.
type Node struct {
	Folder Folder
	// Assets is the folder with Kubernetes' programs, CNIPlugins the one with the CNI's.
	Assets, CNIPlugins string
	// SandboxImage is the image of the first container of each pod.
	SandboxImage string
}

// ProxyHealth is the address of kube-proxy's health check.
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
	// For pods on the node's network. The host's file names servers that are unreachable from the node.
	return os.WriteFile(n.Folder.Config(ResolvConf), nil, 0o600)
}

func (n Node) render(name string) (string, error) {
	var out strings.Builder
	err := templates.ExecuteTemplate(&out, name, n)
	return out.String(), err
}
