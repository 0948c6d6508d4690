// Package controlplane runs a real Kubernetes control plane as processes on this machine: etcd, the
// API server and, optionally, the controller manager and the scheduler.
//
// All its files are in one folder. Started again on the same folder, it has the same objects,
// authority and, if they are free, ports. Each component can be stopped, killed, paused and restarted
// while the others run. The API server authorizes with RBAC, and each component has its own
// certificate.
package controlplane
