// Package skew runs two versions of Ringmaster side by side, and sees that the promises hold that
// docs/explanation/guarantees.md makes: shards and sharders that are built from the working tree, and those of
// an earlier commit. docs/how-to/test.md says when to change that commit.
package skew
