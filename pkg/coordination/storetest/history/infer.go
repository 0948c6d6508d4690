package history

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// inferOutcomes finds out from later reads what nobody knew when it happened. It decides nothing that the reads leave
// open, and spares the checker from trying what cannot be.
func inferOutcomes(operations []porcupine.Operation) []porcupine.Operation {
	// A read that has not ended has seen nothing.
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

// inferCommit looks for a read that has seen what the commit wrote. It was done then, before that read ended.
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
			if entry, there := snapshot.Entries[put.Key]; there && entry.Value == put.Value && entry.Session == put.Session {
				commit.Output, commit.Return = Done{entry.Version}, read.Return
			}
		}
	}
}

// countWriters counts the commits that write the same.
func countWriters(put kv.Operation, operations []porcupine.Operation) (count int) {
	for _, operation := range operations {
		if commit, isCommit := operation.Input.(Commit); isCommit && slices.Contains(commit.Transaction.Then, put) {
			count++
		}
	}
	return count
}

// inferEnd looks for reads that have still seen an entry of the session. It ended after they began.
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
