package webhosting

import (
	"io/fs"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/demo/view"
	webhosting "github.com/ringmaster-project/ringmaster/examples/webhosting/config"
)

// example describes an operator that the demo can run.
type example struct {
	// program is the name of the executable. ring is the name of the ring and of the
	// ServiceAccount.
	program, ring, namespace string
	files                    fs.FS
	// kind is the kind of the sharded objects, object the noun for one of them.
	kind   schema.GroupVersionKind
	object string
}

var exampleWebhosting = example{
	program: "webhosting", ring: Ring, namespace: "webhosting-system",
	files:  webhosting.Files,
	kind:   schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"},
	object: "website",
}

// Ring is the ring of the operator, and the prefix of the names of its objects.
const Ring = "webhosting-operator"

// InstanceName returns the name of an instance of the operator.
func InstanceName(number int) string { return Ring + "-" + strconv.Itoa(number) }

// manifestPaths returns the manifests that a mode needs, in order. The samples are created later,
// when the instances are ready. Deployments are omitted, because the demo runs processes instead.
func (e example) manifestPaths(mode string) []string {
	paths := []string{"operator/namespace.yaml", "rbac"}
	switch mode {
	case view.ModeShard:
		paths = append(paths, "ring")
	case view.ModeInProcess:
		paths = append(paths, "in-process/sharder-role.yaml")
	}
	return paths
}
