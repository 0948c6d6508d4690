package rig_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// BenchmarkStart starts a control plane with the rig and, beside it, with envtest, with the same
// programs. The difference is the cost of RBAC, certificates and components that can be restarted.
func BenchmarkStart(b *testing.B) {
	assets := rig.Assets(b)
	var ours, theirs time.Duration
	for b.Loop() {
		began := time.Now()
		r := rig.Private(b, rig.Options{})
		ours += time.Since(began)
		r.Kill()

		reference := &envtest.Environment{BinaryAssetsDirectory: assets}
		began = time.Now()
		if _, err := reference.Start(); err != nil {
			b.Fatal(err)
		}
		theirs += time.Since(began)
		if err := reference.Stop(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(ours.Seconds()/float64(b.N), "rig-s/start")
	b.ReportMetric(theirs.Seconds()/float64(b.N), "envtest-s/start")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "rig/envtest")
	b.ReportMetric(0, "ns/op") // the sum of both says nothing
}
