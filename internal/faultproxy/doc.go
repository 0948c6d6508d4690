// Package faultproxy stands between an API server and its clients and makes the network bad: slow,
// cut one way or both ways, refused, or with watches that lag behind while everything else works.
//
// A cut holds bytes back instead of dropping them, as a network does: when it is mended, what was
// under way arrives, unless somebody has given up waiting.
//
// It ends the clients' TLS connections itself, for only so can it tell a watch from other requests,
// and passes bearer tokens on. A client that identifies itself with a certificate arrives as nobody.
//
// It can lose the answer to a write that the API server has applied, or call the test before it passes the answer on,
// so that a process can be killed after its n-th write.
//
// It can also answer a path itself, as an API server of another version would.
//
// StartTCP stands before any other server, such as etcd, and passes on what it does not understand.
package faultproxy
