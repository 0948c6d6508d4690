// Package prose formats lists and numbers for messages.
package prose

import (
	"fmt"
	"strings"
)

// maxNames is the maximum number of names in a list.
const maxNames = 5

// List joins names with commas. Of many it has the first ones and the number of the others.
func List[T any](things []T) string {
	var words []string
	for i, thing := range things {
		if i == maxNames {
			words = append(words, fmt.Sprintf("and %d more", len(things)-maxNames))
			break
		}
		words = append(words, fmt.Sprint(thing))
	}
	return strings.Join(words, ", ")
}

// Count returns a number with its noun: "1 object", "2 objects".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Are returns a number with its noun and verb: "1 object is", "2 objects are".
func Are(n int, thing string) string {
	if n == 1 {
		return Count(n, thing) + " is"
	}
	return Count(n, thing) + " are"
}
