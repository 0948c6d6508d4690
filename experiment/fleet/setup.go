package fleet

import (
	"fmt"
	"io/fs"

	"github.com/ringmaster-project/ringmaster/config"
	webhosting "github.com/ringmaster-project/ringmaster/examples/webhosting/config"
)

// Setup is how the instances share the work.
type Setup string

const (
	// Lead means that one instance works and the others wait.
	Lead Setup = "lead"
	// InProcess means that all work, and one of them is the sharder too.
	InProcess Setup = "in-process"
	// External means that all work, and the sharder is a program of its own.
	External Setup = "external"
)

// Setups are all of them.
func Setups() []Setup { return []Setup{Lead, InProcess, External} }

// ParseSetup finds a setup by its name.
func ParseSetup(name string) (Setup, error) {
	for _, s := range Setups() {
		if string(s) == name {
			return s, nil
		}
	}
	return "", fmt.Errorf("there is no setup %q; there are: %v", name, Setups())
}

// mode is the operator's word for it.
func (s Setup) mode() string {
	if s == External {
		return "shard"
	}
	return string(s)
}

// Sharded tells whether the objects are spread, and have the labels of the ring.
func (s Setup) Sharded() bool { return s != Lead }

// Programs are those that it needs.
func (s Setup) Programs() []string {
	if s == External {
		return []string{operator, Sharder}
	}
	return []string{operator}
}

const (
	operator = "webhosting"
	// Sharder is the program that spreads the objects, and the name of its process.
	Sharder = "sharder"
	// Ring is the ring of the operator, and the name of everything that is its.
	Ring = "webhosting-operator"
	// Namespace is where it is.
	Namespace = "webhosting-system"
)

// source is where manifests are.
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

// objects are what has to be there before anything runs, in order.
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
