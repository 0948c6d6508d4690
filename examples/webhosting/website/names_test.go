package website

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestServerName(t *testing.T) {
	long := strings.Repeat("a", 253)
	for name, test := range map[string]struct {
		website types.NamespacedName
		prefix  string
	}{
		"simple":                   {key("shop", "homepage"), "homepage-"},
		"with dots":                {key("shop", "www.example.com"), "www-example-com-"},
		"with a digit first":       {key("shop", "1st"), "w-1st-"},
		"maximum length":           {key("shop", long), strings.Repeat("a", 54) + "-"},
		"cut at a hyphen":          {key("shop", strings.Repeat("a", 53)+"-b"), strings.Repeat("a", 53) + "-"},
		"cut at several hyphens":   {key("shop", strings.Repeat("a", 40)+strings.Repeat("-", 20)+"b"), strings.Repeat("a", 40) + "-"},
		"just short enough":        {key("shop", strings.Repeat("a", 54)), strings.Repeat("a", 54) + "-"},
		"in the longest namespace": {key(strings.Repeat("n", 63), "homepage"), "homepage-"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ServerName(test.website)
			if wrong := append(validation.IsDNS1035Label(got), validation.IsValidLabelValue(got)...); len(wrong) > 0 {
				t.Errorf("%s: %v", got, wrong)
			}
			if !strings.HasPrefix(got, test.prefix) || len(got) != len(test.prefix)+8 {
				t.Errorf("got %s, want %s and eight digits", got, test.prefix)
			}
			if again := ServerName(test.website); again != got {
				t.Errorf("got %s, then %s", got, again)
			}
		})
	}
}

// TestServerNamesDiffer compares similar names.
func TestServerNamesDiffer(t *testing.T) {
	seen := map[string]types.NamespacedName{}
	for _, website := range []types.NamespacedName{
		key("shop", "a-b"), key("shop", "a.b"), key("shop-a", "b"), key("shop", "a"), key("shops", "a"),
		key("shop", strings.Repeat("a", 253)), key("shop", strings.Repeat("a", 252)), key("shop", "1"), key("shop", "w-1"),
	} {
		name := ServerName(website)
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s are both %s", other, website, name)
		}
		seen[name] = website
	}
}
