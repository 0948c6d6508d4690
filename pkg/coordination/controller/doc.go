// Package controller connects Coordinators with a controller of controller-runtime: one for each object that takes part.
//
// It promises that
//
//   - an object is reconciled when another participant of its system has written something, and not only after Result.RequeueAfter;
//   - an object that takes part stays until its participant has left, also if it was deleted while no process ran: the others
//     would wait for its members;
//   - when the controller ends, the others need not wait until its sessions are over;
//   - people see each thing that happened as an event, and a condition that became false once for each reason.
//
// Participants has the Coordinators, with what belongs to them. Reporter writes events, log lines and conditions.
package controller
