// Package rings keeps every ControllerRing true: its webhook configuration is there, its objects are
// being moved, and its status says in words what is wrong and what to do about it.
package rings
