// Package report writes what experiments have shown, for people: one HTML file that needs nothing else, the same as Markdown with
// pictures, and the measurements as CSV.
//
// It promises that the same results make the same files, and that they can be read in the dark and in the light.
package report
