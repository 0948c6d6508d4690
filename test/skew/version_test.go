package skew_test

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// baseCommit is the earlier version with which the working tree must be compatible. docs/how-to/test.md says
// when to change it.
const baseCommit = "3d1f576864dbc0c73132b1e638a56920399bd344"

// version is one of the two versions of Ringmaster. Its name is part of the names of its processes.
type version struct {
	name string
	// operator and sharder are the paths of the executables.
	operator, sharder string
}

// versions builds both versions, each program once for the test run.
func versions(t *testing.T) (earlier, current version) {
	t.Helper()
	const operator, sharder = "./test/skew/operator", "./cmd/sharder"
	return version{"old", rig.Build(t, operator, rig.At(baseCommit)), rig.Build(t, sharder, rig.At(baseCommit))},
		version{"new", rig.Build(t, operator), rig.Build(t, sharder)}
}
