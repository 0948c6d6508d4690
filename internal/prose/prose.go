// Package prose puts things into sentences for people.
package prose

import (
	"fmt"
	"strings"
)

// most is how many things a sentence bears.
const most = 5

// List names things in a sentence. Of many it names the first, and says how many more there are.
func List[T any](things []T) string {
	var words []string
	for i, thing := range things {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(things)-most))
			break
		}
		words = append(words, fmt.Sprint(thing))
	}
	return strings.Join(words, ", ")
}

// Count is a number of things: "1 object", "2 objects".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
