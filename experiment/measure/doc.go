// Package measure stores the metrics that processes serve, and their use of resources as the kernel accounts it, and evaluates
// queries over them. It is Prometheus' text format, storage and query language in a folder, without its server.
//
// It promises that a counter which restarts from zero, because its process does, is counted correctly, and that everything stored
// before an interruption can be queried.
package measure
