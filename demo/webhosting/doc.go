// Package webhosting runs the sample operator on a control plane of this machine: several
// instances, each a process with its own ServiceAccount, a sharder if the mode needs one, and
// Websites.
//
// It guarantees that every process has the permissions of its manifests and no others, that a
// process that exits is restarted, and that Stop leaves nothing behind, in bounded time. In place
// of a kubelet, a fake node reports pods as running, and the demo itself serves the websites.
package webhosting
