// Package website reconciles Websites: for each it maintains a ConfigMap with the page, a
// Deployment of nginx, a Service and an Ingress. It guarantees that these children reach their
// desired state after any change of a child, the Website or its Theme, also if the change happened
// while no instance ran; that it writes only what differs; that it does not adopt objects of
// others; and that the status of the Website reports the result.
//
// The package does not depend on sharding. See docs/how-to/write-controllers.md for the guidelines
// that it follows.
package website
