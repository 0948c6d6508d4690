package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// describe returns an operation and its outcome in one line.
func describe(input, output any) string {
	switch input := input.(type) {
	case Read:
		return fmt.Sprintf("read %s: %s", strings.Join(input.Paths, " "), describeSnapshot(output))
	case Commit:
		return describeTransaction(input.Transaction) + ": " + describeOutcome(output)
	case End:
		return fmt.Sprintf("session %s ends", input.Session)
	}
	return fmt.Sprintf("%v: %v", input, output)
}

func describeSnapshot(output any) string {
	snapshot, isSnapshot := output.(*kv.Snapshot)
	if !isSnapshot {
		return fmt.Sprint(output)
	}
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(snapshot.Entries)) {
		entry := snapshot.Entries[key]
		entries = append(entries, strings.TrimSpace(fmt.Sprintf("%s=%q@%d %s", key, entry.Value, entry.Version, entry.Session)))
	}
	return fmt.Sprintf("revision %d, %s", snapshot.Revision, strings.Join(entries, ", "))
}

func describeTransaction(transaction kv.Transaction) string {
	var words []string
	for _, condition := range transaction.If {
		if condition.Key != "" {
			words = append(words, fmt.Sprintf("if %s@%d", condition.Key, condition.Version))
		} else {
			words = append(words, fmt.Sprintf("if %s/ not after %d", condition.Path, condition.Since))
		}
	}
	for _, operation := range transaction.Then {
		switch {
		case operation.Delete && operation.Below:
			words = append(words, fmt.Sprintf("delete %s/", operation.Key))
		case operation.Delete:
			words = append(words, "delete "+operation.Key)
		default:
			words = append(words, strings.TrimSpace(fmt.Sprintf("put %s=%q %s", operation.Key, operation.Value, operation.Session)))
		}
	}
	return strings.Join(words, ", ")
}

func describeOutcome(output any) string {
	switch output := output.(type) {
	case Done:
		return fmt.Sprintf("revision %d", output.Revision)
	case Refused:
		return output.Reason.Error()
	case Unknown:
		return "unknown"
	}
	return fmt.Sprint(output)
}
