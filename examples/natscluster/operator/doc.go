// Package operator is the adopter's part of an operator for NATS in several regions: the needs of its servers, the order in which
// they are disturbed, and the operations. pkg/coordination does the rest.
//
// It guarantees that a server is restarted or stopped only while all others are up to date and after its streams have other leaders,
// and that incompatible versions are upgraded together.
package operator
