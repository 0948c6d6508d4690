// Package watches restores the watches of a process within seconds after an outage of the API server.
//
// Without it, the backoff of client-go's reflector grows to 30 s and more during an outage, and is reset
// only after two minutes. Refused connections, the errors of a starting API server, and the relist that a
// restarted API server requires all increase it. A watch resumed 14 s after the end of an outage of 5 s.
//
// The package guarantees:
//   - A list or watch that does not reach the API server is retried within seconds after the end of the
//     outage, however long it was, and the reflector's backoff does not grow meanwhile.
//   - During an outage, all watches of a process together send one request per second on average, and
//     never more than two. Processes do not send them in lockstep.
//   - An API server that answers gets no additional requests: 429 and all other errors reach the
//     reflector. The exceptions are 401, 403 and 503, the answers of a starting API server: they count as
//     part of the outage until the first watch has resumed, for at most 30 s.
package watches
