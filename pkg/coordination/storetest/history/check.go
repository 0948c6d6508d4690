package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Model is the model of a store: a map with transactions, revisions and sessions that end.
func Model() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init:              func() []any { return []any{newModelState()} },
		Step:              func(state, input, output any) []any { return step(state.(modelState), input, output) },
		Equal:             func(one, other any) bool { return one.(modelState).equal(other.(modelState)) },
		Hash:              func(state any) uint64 { return state.(modelState).hash() },
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return state.(modelState).String() },
	}).ToModel()
}

// step returns the possible states after an operation.
func step(before modelState, input, output any) []any {
	var after modelState
	possible := true
	switch input := input.(type) {
	case End:
		after = before.end(input.Session)
	case Read:
		after, possible = before.read(input.Paths, output.(*kv.Snapshot))
	case Commit:
		return stepCommit(before, input, output)
	default:
		panic(fmt.Sprintf("unknown operation on a store: %T", input))
	}
	if !possible {
		return nil
	}
	return []any{after}
}

func stepCommit(before modelState, input Commit, output any) []any {
	transaction := input.Transaction
	switch output := output.(type) {
	case Done:
		if after, possible := before.commit(transaction, output.Revision); possible && before.canCommit(transaction) {
			return []any{after}
		}
	case Refused:
		// A store may refuse its own session before the backend has ended it.
		if !errors.Is(output.Reason, kv.ErrConflict) || before.canConflict(transaction) {
			return []any{before}
		}
	case Unknown:
		if after, _ := before.commit(transaction, 0); before.canCommit(transaction) {
			return []any{before, after}
		}
		return []any{before}
	default:
		panic(fmt.Sprintf("unknown output of a commit: %T", output))
	}
	return nil
}

// Check returns an error if the history of a store is not linearizable, or if the time limit is not sufficient to decide.
func Check(operations []porcupine.Operation, limit time.Duration) error {
	operations = inferOutcomes(operations)
	switch porcupine.CheckOperationsTimeout(Model(), operations, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%s is not sufficient to check a history of %d operations", limit, len(operations))
	}
	_, information := porcupine.CheckOperationsVerbose(Model(), operations, limit)
	return fmt.Errorf("a history of %d operations is not linearizable; %s", len(operations), explain(operations, information))
}

// explain describes the end of the longest possible order, and the operations that do not fit after it.
func explain(operations []porcupine.Operation, information porcupine.LinearizationInfo) string {
	const shown = 12
	var longest []porcupine.Operation
	for _, partition := range information.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[string]bool{}
	for _, operation := range longest {
		placed[formatOperation(operation)] = true
	}
	left := slices.DeleteFunc(slices.Clone(operations), func(operation porcupine.Operation) bool { return placed[formatOperation(operation)] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var text strings.Builder
	fmt.Fprintf(&text, "the longest possible order has %d and ends with", len(longest))
	for _, operation := range longest[max(0, len(longest)-shown):] {
		text.WriteString("\n  " + formatOperation(operation))
	}
	text.WriteString("\nafter which none of these fits:")
	for _, operation := range left[:min(len(left), shown)] {
		text.WriteString("\n  " + formatOperation(operation))
	}
	return text.String()
}

func formatOperation(operation porcupine.Operation) string {
	until := "?"
	if operation.Return != never {
		until = time.Duration(operation.Return).String()
	}
	return fmt.Sprintf("client %d, %s to %s: %s", operation.ClientId, time.Duration(operation.Call), until,
		describe(operation.Input, operation.Output))
}
