// Package keys has the rules for keys, paths and transactions that all stores share.
//
// It promises that what it lets pass means the same to every store.
package keys

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Within tells whether a key is at or below a path. Paths are compared by segments: a/dc10 is not below a/dc1.
func Within(path, key string) bool {
	rest, found := strings.CutPrefix(key, path)
	return found && (rest == "" || rest[0] == '/')
}

// CheckPaths tells what is wrong with keys or paths.
func CheckPaths(paths ...string) error {
	for _, path := range paths {
		if path == "" || strings.HasSuffix(path, "/") || !utf8.ValidString(path) {
			return fmt.Errorf("%q cannot be a key: it must be UTF-8, not empty, and must not end with a slash", path)
		}
	}
	return nil
}

// Check tells what is wrong with a transaction, before anything is done.
func Check(transaction kv.Transaction) error {
	for _, condition := range transaction.If {
		if (condition.Key == "") == (condition.Path == "") {
			return errors.New("a condition must be about either a key or a path")
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

// checkOverlap refuses what would depend on the order of the operations.
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
