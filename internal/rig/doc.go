// Package rig gives tests a real Kubernetes control plane and real processes to be rough with.
//
// A package's tests share one control plane, which starts with the first test that asks for it;
// every test has a namespace of its own in it. A test that wants to break the control plane gets
// a private one:
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
// A process runs as a ServiceAccount with exactly the roles that are named, never as an
// administrator. What it wrote is in the test's log when the test fails.
//
// Nothing outlives the test run: no process, no port, no folder; not even when the run is killed.
package rig
