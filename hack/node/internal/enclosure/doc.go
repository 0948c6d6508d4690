// Package enclosure runs a node in namespaces of its own, and promises that nothing of it is left
// when its first process ends, however it ends: the kernel then kills every process inside and
// drops every mount, network device, route and packet rule. Only files and cgroups stay.
//
// The first process (Init) does nothing but prepare the namespaces, start the supervisor, and
// collect what containers leave behind, so that the supervisor can wait for its own children in
// peace.
package enclosure
