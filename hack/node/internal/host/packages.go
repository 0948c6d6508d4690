//go:build linux

package host

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Path is the search path for the node's programs, also in the node itself: the caller's PATH may
// name folders that do not exist in the node.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pluginFolders are the folders in which distributions install the CNI plugins.
var pluginFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// plugins are the CNI plugins that the node uses, and pluginPackage Debian's package with them.
var plugins = []string{"host-local", "loopback", "portmap", "ptp"}

const pluginPackage = "containernetworking-plugins"

// programs are the programs that the node uses besides Kubernetes, and the Debian packages that have them.
var programs = []struct{ name, pack string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},    // loads images
	{"runc", "runc"},         // containerd starts containers with it
	{"nft", "nftables"},      // kube-proxy
	{"iptables", "iptables"}, // the plugin portmap
	{"ip", "iproute2"},       // sets up the node's network
	{"mount", "mount"},       // kubelet, for volumes
}

// FindProgram returns the path of a program in Path.
func FindProgram(name string) (string, error) {
	for _, folder := range filepath.SplitList(Path) {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("program %s not found in %s", name, Path)
}

// FindPlugins returns the folder with the CNI plugins.
func FindPlugins() (string, error) {
	for _, folder := range pluginFolders {
		if hasAll(folder, plugins) {
			return folder, nil
		}
	}
	return "", fmt.Errorf("CNI plugins %s not found in %s", strings.Join(plugins, ", "), strings.Join(pluginFolders, ", "))
}

func hasAll(folder string, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := exec.LookPath(filepath.Join(folder, name))
		return err != nil
	})
}

// MissingPackages returns the Debian packages with the programs that this machine lacks.
func MissingPackages() []string {
	var missing []string
	for _, program := range programs {
		if _, err := FindProgram(program.name); err != nil {
			missing = append(missing, program.pack)
		}
	}
	if _, err := FindPlugins(); err != nil {
		missing = append(missing, pluginPackage)
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}
