package prose_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

func TestList(t *testing.T) {
	for name, test := range map[string]struct {
		things []string
		want   string
	}{
		"none":     {nil, ""},
		"one":      {[]string{"a"}, "a"},
		"five":     {[]string{"a", "b", "c", "d", "e"}, "a, b, c, d, e"},
		"too many": {[]string{"a", "b", "c", "d", "e", "f", "g"}, "a, b, c, d, e, and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := prose.List(test.things); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestListOfNames(t *testing.T) {
	shards := []types.NamespacedName{{Namespace: "here", Name: "a"}, {Namespace: "there", Name: "b"}}
	if got, want := prose.List(shards), "here/a, there/b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 objects", 1: "1 object", 2: "2 objects"} {
		if got := prose.Count(n, "object"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAre(t *testing.T) {
	for n, want := range map[int]string{0: "0 objects are", 1: "1 object is", 2: "2 objects are"} {
		if got := prose.Are(n, "object"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
