// Package webhosting runs an example operator on a control plane of this machine: several instances of it, each a
// process under a ServiceAccount of its own, what they need to share the work, and objects to work on.
//
// It promises that every process is what it would be in a cluster, with the rights that its manifests give
// it and no others; that it can be told to do everything that can happen to a process, and restarts what
// ends; and that Stop leaves nothing behind, in bounded time. What it pretends, because there is no node,
// is said: pods run nothing, and web pages are served by the demo itself.
package webhosting
