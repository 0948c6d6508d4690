package doctor

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names of the checks.
const (
	checkServer      = "server"
	checkCRD         = "crd"
	checkSharder     = "sharder"
	checkRings       = "rings"
	checkResources   = "resources"
	checkLeases      = "leases"
	checkKinds       = "kinds"
	checkPermissions = "permissions"
	checkWebhooks    = "webhooks"
	checkClocks      = "clocks"
)

// Evaluate judges facts. It is a pure function.
func Evaluate(f *Facts) *Report {
	rings := f.rings()
	sharder, resources, leases := evaluateSharder(f, rings), evaluateResources(f, rings), evaluateLeases(f, rings)
	kinds, permissions, webhooks := evaluateKinds(f, rings), evaluatePermissions(f, rings), evaluateWebhooks(f, rings)
	// The conditions of a ring often repeat what a check found, with less detail.
	conditions := evaluateRings(f, rings, sharder, resources, kinds, permissions)
	report := &Report{Time: metav1.Time{Time: f.Now}, Checks: []Check{
		*evaluateServer(f), *evaluateCRD(f, rings), *sharder, *permissions, *webhooks, *conditions, *resources, *kinds, *leases,
		*evaluateClocks(f, rings),
	}}
	report.summarize()
	return report
}

// unreadable reports that something could not be read.
func (c *Check) unreadable(subject string, err error) {
	next := "check the connection to the API server and run the command again"
	switch {
	case apierrors.IsForbidden(err):
		next = "ask an administrator to apply 'ringmaster doctor --print-role' and to bind it to you"
	case errors.Is(err, errTimeout):
		next = "run the command again with a longer --timeout"
	}
	c.add(Finding{Reason: NotReadable, Status: Unknown, Object: subject, Cause: fmt.Sprintf("cannot be read: %v", err), Next: next})
}

// requireRings reports that the rings or their Leases could not be read, without which a check would find
// nothing.
func (c *Check) requireRings(f *Facts) {
	if !f.Rings.known() {
		c.unreadable("ControllerRings", f.Rings.Err)
	}
	if !f.Leases.known() {
		c.unreadable("Leases of shards", f.Leases.Err)
	}
}

// message sets the message of a check without findings.
func (c *Check) message(format string, args ...any) *Check {
	if len(c.Findings) == 0 {
		c.Message = fmt.Sprintf(format, args...)
	}
	return c
}
