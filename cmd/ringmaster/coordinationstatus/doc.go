// Package coordinationstatus reports the state of a coordination: the participants, the pending actions and the members that
// are ready for them, the action in progress with its current step, and the wait reasons of each action.
//
// It guarantees that a report is consistent with one revision of the store, and that it writes nothing.
package coordinationstatus

// EndpointsVariable is the environment variable with the endpoints of the etcd that participants share, for commands
// without --endpoints.
const EndpointsVariable = "RINGMASTER_ENDPOINTS"
