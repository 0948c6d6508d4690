// Package up carries out 'ringmaster up': it runs a control plane and a sample operator on this
// machine, in the foreground.
//
// It guarantees that the first signal stops everything gracefully, that the second stops it
// immediately, and that nothing is left afterwards. It changes nothing outside its data folder, and
// does not use a folder that contains other files. Other programs locate the running demo with
// Find.
package up
