// Package doctor finds out what is wrong with the rings of a cluster, and what to do about it.
//
// It guarantees to write nothing: the only requests besides reads are access reviews and, unless the
// user disables it, a dry-run create for each ring. It never lists sharded objects, so its cost depends
// on the number of rings, Leases and namespaces only. What the user may not read is reported as
// unknown, never as ok.
//
// Reading and judging are separate: a gatherer collects Facts, and Evaluate is a pure function of them.
package doctor
