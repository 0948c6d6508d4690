// Package coordinationstatus shows people what the instances that manage a system together tell each other: who takes part,
// what is pending, who is ready, who acts, at which step, and what everything waits for.
//
// It promises that all of it was true at one revision of the store, and that it only looks.
package coordinationstatus

// EndpointsVariable is the environment variable with the endpoints of the etcd that participants share, for commands
// without --endpoints.
const EndpointsVariable = "RINGMASTER_ENDPOINTS"
