//go:build linux

package host

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
)

// Processes describes the processes of a node that has ended.
func Processes(folder config.Folder, ended pidfile.Info) []string {
	var found []string
	for _, p := range processes("/proc") {
		if relation := p.belongs(folder, ended); relation != "" {
			found = append(found, fmt.Sprintf("process %s (%s) %s", p.pid, p.name, relation))
		}
	}
	return found
}

// Leftovers describes the other resources of a node that are still on this machine.
func Leftovers(folder config.Folder) ([]string, error) {
	var found []string
	mounts, err := mountsBelow(string(folder))
	if err != nil {
		return nil, err
	}
	for _, mount := range mounts {
		found = append(found, "mount "+mount)
	}
	hierarchies, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	for _, path := range cgroupPaths(hierarchies, folder.Cgroup()) {
		found = append(found, "cgroup "+path)
	}
	if content, err := os.ReadFile(policyFile); err == nil && string(content) == policy {
		found = append(found, "file "+policyFile)
	}
	return found, nil
}

// process has the attributes of a process in /proc.
type process struct{ pid, name, program, network, cgroups string }

func processes(proc string) []process {
	var all []process
	folders, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, folder := range folders {
		// A process may end meanwhile; the attributes that cannot be read are then empty.
		name, _ := os.ReadFile(filepath.Join(folder, "comm"))
		program, _ := os.Readlink(filepath.Join(folder, "exe"))
		network, _ := os.Readlink(filepath.Join(folder, "ns", "net"))
		cgroups, _ := os.ReadFile(filepath.Join(folder, "cgroup"))
		all = append(all, process{
			pid: filepath.Base(folder), name: strings.TrimSpace(string(name)),
			program: program, network: network, cgroups: string(cgroups),
		})
	}
	return all
}

// belongs describes how a process is part of the node, or returns "".
func (p process) belongs(folder config.Folder, ended pidfile.Info) string {
	switch {
	case ended.Network != "" && p.network == ended.Network:
		return "keeps the node's network alive"
	case strings.Contains(p.cgroups+"/", "/"+folder.Cgroup()+"/"):
		return "is in a cgroup of the node"
	case strings.HasPrefix(p.program, string(folder)+"/"):
		return "runs a program of the node"
	}
	return ""
}

func mountsBelow(folder string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var found []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4]+"/", folder+"/") {
			found = append(found, fields[4])
		}
	}
	return found, nil
}
