// Package keys checks keys, paths and transactions.
//
// It guarantees that a transaction that passes means the same to every store.
package keys

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Within reports whether a key is at or below a path. Paths are compared by segments: a/dc10 is not below a/dc1.
func Within(path, key string) bool {
	rest, found := strings.CutPrefix(key, path)
	return found && (rest == "" || rest[0] == '/')
}

// CheckPaths returns an error if a key or path is invalid.
func CheckPaths(paths ...string) error {
	for _, path := range paths {
		if path == "" || strings.HasSuffix(path, "/") || !utf8.ValidString(path) {
			return fmt.Errorf("invalid key %q: it must be UTF-8, not empty, and must not end with a slash", path)
		}
	}
	return nil
}

// Check returns an error if a transaction is invalid.
func Check(transaction kv.Transaction) error {
	for _, condition := range transaction.If {
		if (condition.Key == "") == (condition.Path == "") {
			return errors.New("a condition must have either a key or a path")
		}
		if err := CheckPaths(condition.Key + condition.Path); err != nil {
			return err
		}
	}
	var written, deleted []kv.Operation
	for _, operation := range transaction.Then {
		if err := CheckPaths(operation.Key); err != nil {
			return err
		}
		if operation.Delete {
			deleted = append(deleted, operation)
			continue
		}
		if !utf8.ValidString(operation.Value) {
			return fmt.Errorf("the value for %s is not UTF-8: encode it", operation.Key)
		}
		written = append(written, operation)
	}
	return checkOverlap(written, deleted)
}

// checkOverlap returns an error if the result would depend on the order of the operations.
func checkOverlap(written, deleted []kv.Operation) error {
	keys := map[string]bool{}
	for _, write := range written {
		if keys[write.Key] {
			return fmt.Errorf("%s is written twice in one transaction", write.Key)
		}
		keys[write.Key] = true
		for _, removal := range deleted {
			if write.Key == removal.Key || removal.Below && Within(removal.Key, write.Key) {
				return fmt.Errorf("%s is written and deleted in one transaction", write.Key)
			}
		}
	}
	return nil
}
