// Package view shows a person what goes on: as a picture that is drawn over and over in a terminal, or as
// lines for a file.
//
// It promises that what is shown is a function of the State alone, that it fits the terminal, whatever
// its size, and that no text from the cluster can do anything to the terminal but appear in it.
package view
