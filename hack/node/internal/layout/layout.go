// Package layout decides how a test node is called and where it keeps its things: everything is
// in one folder, and what cannot be there (cgroups) has a name that is made from the folder's.
package layout

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
	// Address is the node's only address. It is from a range that is reserved for documentation, so
	// that it is nobody's.
	Address = "198.51.100.1"
	// AddressPrefix is Address with the size of its network.
	AddressPrefix = Address + "/24"
	// Uplink is the device that carries Address. It leads nowhere.
	Uplink = "uplink"
	// APIPort is the API server's port at Address.
	APIPort = 6443
	// PodRange is where pods get their addresses.
	PodRange = "10.244.0.0/16"
	// ContainerdSocket is the path inside the node.
	ContainerdSocket = "/run/containerd/containerd.sock"
)

// Private are the folders that the node has for itself, empty at first: programs write to fixed
// paths in them, and the machine must not see it.
var Private = []string{"/run", "/var/lib", "/var/log"}

// special are folders that hold something else than files on a disk.
var special = []string{"/run", "/var/run", "/proc", "/sys", "/dev"}

// Folder is the folder of one node.
type Folder string

// New checks the path that somebody gave for a node's folder.
func New(path string) (Folder, error) {
	if path == "" {
		return "", errors.New("the node's folder has no name: give one with --dir")
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

// Marker is the file that makes the folder ours: without it, nothing is removed.
func (f Folder) Marker() string { return f.path("README") }

// Record is the file that tells which process is the node.
func (f Folder) Record() string { return f.path("node.json") }

// Ready is a file that exists when the node has come up.
func (f Folder) Ready() string { return f.path("ready") }

// Program is the copy of this program that the node runs.
func (f Folder) Program() string { return f.path("node") }

// Kubeconfig is the administrator's. Its server is in the node's network.
func (f Folder) Kubeconfig() string { return f.path("kubeconfig") }

// Kubectl is a script that runs kubectl with that kubeconfig in that network.
func (f Folder) Kubectl() string { return f.path("kubectl") }

// Cache is for what kubectl would else keep in the user's home.
func (f Folder) Cache() string { return f.path("cache") }

// Logs is the folder of all logs, of pods as well.
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

// Bind is a folder of the node that programs inside see under another path.
type Bind struct{ Source, Target string }

// Binds are the folders that are too large or too useful for a private folder in memory.
func (f Folder) Binds() []Bind {
	return []Bind{
		{f.path("containerd"), "/var/lib/containerd"},
		{f.path("kubelet"), "/var/lib/kubelet"},
		{f.path("logs", "pods"), "/var/log/pods"},
	}
}

// Cgroup is the cgroup that holds all pods. Nodes in other folders have others.
func (f Folder) Cgroup() string {
	hash := sha256.Sum256([]byte(f))
	return NodeName + "-" + hex.EncodeToString(hash[:4])
}
