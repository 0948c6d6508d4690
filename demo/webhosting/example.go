package webhosting

import (
	"io/fs"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/demo/view"
	webhosting "github.com/ringmaster-project/ringmaster/examples/webhosting/config"
)

// example is an operator that can be shown.
type example struct {
	// program is the name of its executable, ring that of its ring and of its ServiceAccount.
	program, ring, namespace string
	files                    fs.FS
	// kind is that of the objects that are spread, object what one of them is called.
	kind   schema.GroupVersionKind
	object string
}

var webhostingExample = example{
	program: "webhosting", ring: Ring, namespace: "webhosting-system",
	files:  webhosting.Files,
	kind:   schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"},
	object: "website",
}

// Ring is the ring of the operator, and the name of everything that is its.
const Ring = "webhosting-operator"

// InstanceName is the name of an instance of the operator.
func InstanceName(number int) string { return Ring + "-" + strconv.Itoa(number) }

// installs are the manifests that a mode needs, in order. The samples come later, when there is somebody to
// work on them; Deployments not at all, the demo runs processes instead.
func (e example) installs(mode string) []string {
	paths := []string{"operator/namespace.yaml", "rbac"}
	switch mode {
	case view.ModeShard:
		paths = append(paths, "ring")
	case view.ModeInProcess:
		paths = append(paths, "in-process/sharder-role.yaml")
	}
	return paths
}
