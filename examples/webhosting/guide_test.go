package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuideNamesExist checks docs/how-to/write-controllers.md: each guideline names a test, and
// every test, function and file that it names exists.
func TestGuideNamesExist(t *testing.T) {
	const folder = "../../docs/how-to"
	guide, err := os.ReadFile(filepath.Join(folder, "write-controllers.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, pattern := range []string{"*.go", "website/*.go", "api/v1alpha1/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(content)
		}
	}
	test := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	guidelines := regexp.MustCompile(`(?m)^## \d+\. `).Split(string(guide), -1)[1:]
	if len(guidelines) != 12 {
		t.Errorf("got %d guidelines, want 12", len(guidelines))
	}
	for _, guideline := range guidelines {
		if title, text, _ := strings.Cut(guideline, "\n"); !test.MatchString(text) {
			t.Errorf("%s has no test", title)
		}
	}
	for _, name := range test.FindAllStringSubmatch(string(guide), -1) {
		if !strings.Contains(code.String(), "func "+name[1]+"(") {
			t.Errorf("test %s not found", name[1])
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^:)#]+)\)`).FindAllStringSubmatch(string(guide), -1) {
		if _, err := os.Stat(filepath.Join(folder, link[1])); err != nil {
			t.Error(err)
		}
	}
	for _, name := range regexp.MustCompile("`([a-z]\\w+)` (?:and `(\\w+)` )?in \\[").FindAllStringSubmatch(string(guide), -1) {
		for _, function := range name[1:] {
			if function != "" && !regexp.MustCompile(`func (\([^)]*\) )?`+function+`[\[(]`).MatchString(code.String()) {
				t.Errorf("function %s not found", function)
			}
		}
	}
}
