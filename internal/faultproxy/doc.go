// Package faultproxy is a proxy between an API server and its clients that injects network faults: delays,
// partitions in one or both directions, refused connections, and watches that lag while other requests work.
//
// A partition holds bytes back instead of dropping them, as a network does: they arrive when it is healed,
// unless the receiver has timed out.
//
// The proxy terminates the clients' TLS connections, to distinguish watches from other requests, and
// forwards bearer tokens. A client that authenticates with a certificate is anonymous to the API server.
//
// It can drop the response to a write that the API server has applied, or call the test before it forwards the
// response, so that a process can be killed after its n-th write.
//
// It can also respond to a path itself, as an API server of another version would.
//
// StartTCP starts a proxy for any other server, such as etcd, that forwards bytes.
package faultproxy
