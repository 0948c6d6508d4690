// Package webserver serves the pages of websites in place of an Ingress controller and nginx: it
// looks up the path in the Ingresses, and reads the page from the ConfigMap that the pods behind it
// mount.
//
// It guarantees that a page reflects the current objects in the cluster, and that names of objects
// are escaped in the list of all pages.
package webserver
