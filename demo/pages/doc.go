// Package pages serves web pages as a cluster would, without running any web server in it: the path is
// looked up in the Ingresses, and what the backend would serve is read from where its pods get it.
//
// It promises that a page is what the cluster's objects say at that moment, and that nothing which
// somebody has named can become markup in what is its own.
package pages
