// Package debian extracts a program and the libraries that it needs from the distribution's packages. It
// installs nothing, and needs root only if the machine's lists of packages are missing. It downloads
// packages once. The same packages give the same files.
package debian
