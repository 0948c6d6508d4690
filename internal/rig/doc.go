// Package rig provides tests with a real Kubernetes control plane and real processes.
//
// The tests of a package share one control plane, which the first of them starts, and each has its
// own namespace. A test that breaks the control plane starts a private one:
//
//	func TestMain(m *testing.M) { rig.Main(m, rig.Options{ControllerManager: true}) }
//
//	func TestSomething(t *testing.T) {
//		r := rig.Shared(t)
//		shard := r.Start(t, rig.Process{
//			Name:   "shard-0",
//			Binary: rig.Build(t, "./cmd/sharder", rig.Race),
//			Roles:  []string{"config/rbac"},
//		})
//		shard.Pause()
//		…
//	}
//
// A process runs as a ServiceAccount with exactly the given roles, never as an administrator. Its output
// is in the test's log if the test fails.
//
// No process, port or folder outlives the test run, even if the run is killed.
package rig
