// Package sandbox runs a node in Linux namespaces of its own. When the first process of these
// namespaces ends, for whatever reason, the kernel kills every process in them and removes every mount,
// network device, route and packet rule. Only files and cgroups remain.
//
// The first process (Init) prepares the namespaces, starts the supervisor, and reaps the orphaned
// processes of containers, so that the supervisor has only its own children to wait for.
package sandbox
