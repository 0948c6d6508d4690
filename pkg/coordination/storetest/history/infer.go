package history

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// inferOutcomes infers unknown outcomes from later reads. It changes nothing that the reads leave open, and saves the checker from
// trying impossible orders.
func inferOutcomes(operations []porcupine.Operation) []porcupine.Operation {
	// A read without an end has returned nothing.
	settled := slices.DeleteFunc(slices.Clone(operations), func(operation porcupine.Operation) bool {
		_, isRead := operation.Input.(Read)
		return isRead && operation.Output == any(Unknown{})
	})
	for i := range settled {
		switch input := settled[i].Input.(type) {
		case Commit:
			if settled[i].Output == any(Unknown{}) {
				inferCommit(&settled[i], input, operations)
			}
		case End:
			inferEnd(&settled[i], input, operations)
		}
	}
	return settled
}

// inferCommit searches for a read of the value that the commit wrote: it took effect before the end of that read.
func inferCommit(commit *porcupine.Operation, input Commit, operations []porcupine.Operation) {
	for _, put := range input.Transaction.Then {
		if put.Delete || countWriters(put, operations) != 1 {
			continue
		}
		for _, read := range operations {
			snapshot, isRead := read.Output.(*kv.Snapshot)
			if !isRead || read.Return >= commit.Return || read.Return < commit.Call {
				continue
			}
			if entry, ok := snapshot.Entries[put.Key]; ok && entry.Value == put.Value && entry.Session == put.Session {
				commit.Output, commit.Return = Done{entry.Version}, read.Return
			}
		}
	}
}

// countWriters returns the number of commits that write the same value.
func countWriters(put kv.Operation, operations []porcupine.Operation) (count int) {
	for _, operation := range operations {
		if commit, isCommit := operation.Input.(Commit); isCommit && slices.Contains(commit.Transaction.Then, put) {
			count++
		}
	}
	return count
}

// inferEnd searches for reads that still returned an entry of the session: it ended after the beginning of those reads.
func inferEnd(end *porcupine.Operation, input End, operations []porcupine.Operation) {
	for _, read := range operations {
		snapshot, isRead := read.Output.(*kv.Snapshot)
		if !isRead || read.Call <= end.Call || read.Call >= end.Return {
			continue
		}
		for _, entry := range snapshot.Entries {
			if entry.Session == input.Session {
				end.Call = max(end.Call, read.Call)
			}
		}
	}
}
