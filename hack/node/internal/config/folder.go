// Package config defines the names, addresses and paths of a test node, and writes the configuration of
// its programs. All files are in one folder; the name of the node's cgroup is derived from that folder.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// NodeName is the name of the Node object, and the host name inside.
	NodeName = "ringmaster-node"
	// Address is the node's only address. Its range is reserved for documentation, so no machine
	// has it.
	Address = "198.51.100.1"
	// AddressPrefix is Address with the size of its network.
	AddressPrefix = Address + "/24"
	// Uplink is the device with Address. No packet leaves the node through it.
	Uplink = "uplink"
	// APIPort is the API server's port at Address.
	APIPort = 6443
	// PodRange has the addresses of pods.
	PodRange = "10.244.0.0/16"
	// ContainerdSocket is the path inside the node.
	ContainerdSocket = "/run/containerd/containerd.sock"
)

// Private are the folders that the node mounts for itself, empty at first: programs write to fixed
// paths in them, which must not reach the host.
var Private = []string{"/run", "/var/lib", "/var/log"}

// special are folders whose files are not on a disk.
var special = []string{"/run", "/var/run", "/proc", "/sys", "/dev"}

// Folder is the folder of one node.
type Folder string

// NewFolder checks a path for a node's folder.
func NewFolder(path string) (Folder, error) {
	if path == "" {
		return "", errors.New("the node's folder has no path: set --dir")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	inMemory := slices.ContainsFunc(special, func(parent string) bool {
		return strings.HasPrefix(absolute+"/", parent+"/")
	})
	if inMemory || absolute == "/" || slices.Contains(Private, absolute) {
		return "", fmt.Errorf("%s cannot be the node's folder: choose one on a disk, such as /var/lib/ringmaster-node", absolute)
	}
	return Folder(absolute), nil
}

func (f Folder) path(elements ...string) string {
	return filepath.Join(append([]string{string(f)}, elements...)...)
}

// Marker is the file that marks the folder as a node's. Without it, no command removes the folder.
func (f Folder) Marker() string { return f.path("README") }

// PIDFile identifies the node's first process.
func (f Folder) PIDFile() string { return f.path("node.json") }

// Ready is a file that exists when the node is ready.
func (f Folder) Ready() string { return f.path("ready") }

// Program is the copy of this binary that the node runs.
func (f Folder) Program() string { return f.path("node") }

// Kubeconfig is the administrator's. Its server is in the node's network.
func (f Folder) Kubeconfig() string { return f.path("kubeconfig") }

// Kubectl is a script that runs kubectl with that kubeconfig in that network.
func (f Folder) Kubectl() string { return f.path("kubectl") }

// Cache is the folder of kubectl's cache, instead of one in the user's home.
func (f Folder) Cache() string { return f.path("cache") }

// Logs is the folder of all logs, those of pods included.
func (f Folder) Logs() string { return f.path("logs") }

// Log is the log of one program.
func (f Folder) Log(program string) string { return f.path("logs", program+".log") }

// Config is a configuration file.
func (f Folder) Config(name string) string { return f.path("config", name) }

// CNI is the folder with the configuration of the pods' network.
func (f Folder) CNI() string { return f.path("config", "cni") }

// PKI is a file with a certificate or a key.
func (f Folder) PKI(name string) string { return f.path("pki", name) }

// Probe is a folder in which kernel features are tried.
func (f Folder) Probe() string { return f.path("probe") }

// Bind is a folder that is mounted at another path in the node.
type Bind struct{ Source, Target string }

// Binds are folders that are too large for a private folder in memory, or have to remain after the node.
func (f Folder) Binds() []Bind {
	return []Bind{
		{f.path("containerd"), "/var/lib/containerd"},
		{f.path("kubelet"), "/var/lib/kubelet"},
		{f.path("logs", "pods"), "/var/log/pods"},
	}
}

// Cgroup is the cgroup of all pods. It differs between folders.
func (f Folder) Cgroup() string {
	hash := sha256.Sum256([]byte(f))
	return NodeName + "-" + hex.EncodeToString(hash[:4])
}
