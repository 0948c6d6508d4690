// Package controller connects Coordinators with a controller of controller-runtime: one Coordinator for each object that takes part.
//
// It guarantees that
//
//   - an object is reconciled when another participant of its system has written an entry, and not only after Result.RequeueAfter;
//   - an object that takes part keeps its finalizer until its participant has left, also if it was deleted while no process ran:
//     otherwise the others would wait for its members;
//   - when the controller ends, the others need not wait until its sessions expire;
//   - each event of a Reconcile becomes a Kubernetes event, and a condition that becomes false an event once for each reason.
//
// Participants holds the Coordinators. Reporter writes events, log messages and conditions.
package controller
