// Package skew runs two versions of Ringmaster side by side, and checks the promises of
// docs/explanation/guarantees.md: shards and sharders of the working tree, and those of an earlier commit.
// docs/how-to/test.md says when to change that commit.
package skew
