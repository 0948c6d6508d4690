// Package debian takes a program out of the distribution's packages, with the libraries that it needs
// and nothing else. It promises to install nothing and to need no root where the machine's lists of
// packages are there; what it has downloaded once it does not ask for again. The same packages give
// the same files.
package debian
