// Package status shows people which rings there are, who is in them, what each shard has, and why an
// object is where it is.
//
// It promises to judge as the sharder does, with the same code: who is a member, where an object
// belongs, which objects are spread. It only reads; objects as metadata, in pages, and none is kept:
// what it takes to look at a ring does not grow with the number of its objects. What somebody may not
// read is shown as not known, with the reason, beside all that they may.
//
// Everything is one look. Clocks of shards and API servers are not this computer's, so a time that
// compares them is told to people and decides nothing.
package status
