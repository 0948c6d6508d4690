// Package regions shows an etcd cluster whose members are in three regions, each a namespace with an operator and an
// agent of its own, on a control plane of this machine.
//
// It promises what package demo does: it adds nothing to what an administrator could do, every operator runs under its
// own ServiceAccount with the roles of its manifests, and nothing is left when it ends.
package regions
