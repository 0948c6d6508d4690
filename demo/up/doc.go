// Package up runs Ringmaster on one machine, in the foreground, for a person: a control plane, and on it an
// example operator in several instances.
//
// It promises that it can always be ended: on the first signal in good order, on the second at
// once, and that nothing which it started is there afterwards. It changes nothing outside one
// folder, and never touches a folder that holds something else. While it runs, Find finds it.
package up
