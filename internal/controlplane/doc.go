// Package controlplane runs a real Kubernetes control plane as processes on this machine: etcd,
// the API server and, when asked for, the controller manager and the scheduler.
//
// Everything that it writes is in one folder. Started again on the same folder it has the same
// objects, authority and, as far as they are still free, ports. Every part can be stopped, killed,
// paused and restarted by itself while the others go on. The API server authorizes with RBAC and
// every part has a certificate of its own.
package controlplane
