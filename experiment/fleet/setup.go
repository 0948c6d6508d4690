package fleet

import (
	"fmt"
	"io/fs"

	"github.com/ringmaster-project/ringmaster/config"
	webhosting "github.com/ringmaster-project/ringmaster/examples/webhosting/config"
)

// Setup is how the instances divide the work.
type Setup string

const (
	// Lead is leader election: one instance reconciles, and the others are standbys.
	Lead Setup = "lead"
	// InProcess is a ring whose elected shard also runs the sharder.
	InProcess Setup = "in-process"
	// External is a ring whose sharder is a separate program.
	External Setup = "external"
)

// Setups returns all setups.
func Setups() []Setup { return []Setup{Lead, InProcess, External} }

// ParseSetup returns the setup with a name.
func ParseSetup(name string) (Setup, error) {
	for _, s := range Setups() {
		if string(s) == name {
			return s, nil
		}
	}
	return "", fmt.Errorf("setup %q not found (available: %s, %s, %s)", name, Lead, InProcess, External)
}

// mode returns the value of the operator's flag --mode.
func (s Setup) mode() string {
	if s == External {
		return "shard"
	}
	return string(s)
}

// Sharded reports whether objects have a shard label.
func (s Setup) Sharded() bool { return s != Lead }

// Programs returns the programs that the setup needs.
func (s Setup) Programs() []string {
	if s == External {
		return []string{operator, Sharder}
	}
	return []string{operator}
}

const (
	operator = "webhosting"
	// Sharder is the name of the external sharder's program and process.
	Sharder = "sharder"
	// Ring is the name of the operator's ring, ServiceAccount and roles.
	Ring = "webhosting-operator"
	// Namespace is the operator's namespace.
	Namespace = "webhosting-system"
)

// source locates manifests.
type source struct {
	files fs.FS
	path  string
}

func (s Setup) kinds() []source {
	all := []source{{webhosting.Files, "crds"}}
	if s == External {
		all = append(all, source{config.Manifests, "crds"})
	}
	return all
}

// objects returns the objects that must exist before a process starts, in order.
func (s Setup) objects() []source {
	all := []source{{webhosting.Files, "operator/namespace.yaml"}, {webhosting.Files, "rbac"}}
	switch s {
	case External:
		return append(all, source{config.Manifests, "sharder/namespace.yaml"}, source{config.Manifests, "rbac"}, source{webhosting.Files, "ring"})
	case InProcess:
		return append(all, source{webhosting.Files, "in-process/sharder-role.yaml"})
	case Lead:
	}
	return all
}
