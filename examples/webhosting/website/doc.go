// Package website makes a served page of every Website: a ConfigMap with the page, a Deployment of nginx,
// a Service and an Ingress. It promises that each of them is as it should be soon after it, the Website
// or its Theme has changed, whoever changed it and whether or not anybody was there to see it; that it
// writes only what differs; that it takes nothing that is not the Website's; and that the Website's
// status says how it goes.
//
// Nothing in it knows of shards. See docs/how-to/write-controllers.md for what to learn from it.
package website
