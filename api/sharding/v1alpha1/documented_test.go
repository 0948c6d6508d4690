package v1alpha1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamesAreDocumented keeps the reference of conditions, events, labels and annotations complete.
func TestNamesAreDocumented(t *testing.T) {
	const docs = "../../../docs/reference/"
	for name, test := range map[string]struct{ sources, pattern, document string }{
		"conditions and reasons": {"controllerring.go", `\b(?:Condition|Reason)\w+ += "(\w+)"`, "conditions-and-events.md"},
		"events":                 {"../../../internal/sharder/leases/*.go", `corev1\.EventType\w+, "(\w+)"`, "conditions-and-events.md"},
		"labels and annotations": {"labels.go", `\b(?:Label|Annotation)\w+ += "(\S+)"`, "labels-and-annotations.md"},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := os.ReadFile(docs + test.document)
			if err != nil {
				t.Fatal(err)
			}
			sources, err := filepath.Glob(test.sources)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, source := range sources {
				content, err := os.ReadFile(source)
				if err != nil {
					t.Fatal(err)
				}
				for _, match := range regexp.MustCompile(test.pattern).FindAllStringSubmatch(string(content), -1) {
					found++
					if !strings.Contains(string(document), "`"+match[1]) {
						t.Errorf("docs/reference/%s does not document %s", test.document, match[1])
					}
				}
			}
			if found < 5 {
				t.Errorf("found only %d names in %s", found, test.sources)
			}
		})
	}
}
