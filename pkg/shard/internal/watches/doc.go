// Package watches restores the watches of a process soon after an outage of the API server.
//
// client-go's reflector doubles the delay between its attempts, from 0.8 s to 30 s and more, and starts over only two
// minutes after the first attempt. Refused connections, the errors of an API server that is starting, and the relist
// that follows because the new server has no history of events all add to this backoff. A watch came back 14 s after
// the end of an outage of 5 s.
//
// The package guarantees:
//   - A list or watch that does not reach the API server is sent again, within seconds after the end of the outage
//     however long that lasted, and the reflector's backoff does not grow meanwhile.
//   - During an outage, all watches of a process together send one request per second on average, and never more
//     than two. Processes do not send them in step.
//   - An API server that answers gets no request that client-go alone would not send: overload (429) and all other
//     errors reach the reflector. Only while no watch has come back since an outage, and for 30 s at most, 401, 403 and
//     503 are the answers of a server that is still starting, and treated as the outage.
package watches
