package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRulesFindTheirExamples(t *testing.T) {
	r, err := readRules(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.find(rule.Example) == nil {
			t.Errorf("%s does not find its example %q", rule.Pattern, rule.Example)
		}
		if rule.find(rule.Instead) != nil {
			t.Errorf("%s refuses what it proposes: %q", rule.Pattern, rule.Instead)
		}
	}
}

func TestPlantedPhrases(t *testing.T) {
	root := t.TempDir()
	plant := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	plant("README.md", "The lock can\nbe had again.\n\n```\nstranded\n```\nBut `stranded` is code.\n")
	plant("main.go", "// Package main knows what can be\n// had.\npackage main\n\n// Rivals call it\n// for objects that are\n// stranded.\nvar help = `Find what is\nstranded`\n\nfunc remain() {}\n")
	plant("config/role.yaml", "# The lock can be\n# had.\nkind: Role\n")
	plant("hack/e2e.sh", "# the drawer\n")
	plant(".ci/run", "echo 'its crew'\n")
	plant("Makefile", "up: ## Find what is stranded\n")
	plant("config/crds/ring.yaml", "description: stranded\n")
	plant("added.go", "package main\n\nconst help = \"The lock \" +\n\t\"can \" + name +\n\t\" and the lease can be \" +\n\t\"had\"\n")
	plant("zz_generated.deepcopy.go", "// stranded\npackage main\n")
	plant("docs/reference/cli/ringmaster.md", "stranded\n")
	findings, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int{}
	for _, f := range findings {
		if f.line > 0 { // exceptions of this repository are not needed there
			got[f.file+" "+f.phrase] = append(got[f.file+" "+f.phrase], f.line)
		}
	}
	want := map[string][]int{
		"README.md can be had":        {1},
		"main.go can be had":          {1},
		"main.go Rivals":              {5},
		"main.go stranded":            {7, 9},
		"config/role.yaml can be had": {1},
		"hack/e2e.sh drawer":          {1},
		".ci/run crew":                {1},
		"Makefile stranded":           {1},
		"added.go can be had":         {5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlantedIdentifiers(t *testing.T) {
	r, err := readRules([]byte("words: [{word: 'scenes?'}, {word: cast}]\nallow: " +
		"[{file: '*/allowed.go', identifier: typeCast, reason: a type}, {file: b.go, identifier: scene, reason: a movie}]"))
	if err != nil {
		t.Fatal(err)
	}
	const source = `package scene

import cast "fmt"

type HTTPScene struct{ scene2, broadcast, sceneries int }

func (s *HTTPScene) NewScenes(cast_ int) (multicast bool) {
	typeCast := other.Scene
	for scene := range typeCast {
	}
cast:
	return false
}
`
	for file, want := range map[string][]string{
		"internal/a.go":          {"scene 1", "cast 3", "HTTPScene 5", "scene2 5", "NewScenes 7", "cast_ 7", "typeCast 8"},
		"internal/allowed.go":    {"scene 1", "cast 3", "HTTPScene 5", "scene2 5", "NewScenes 7", "cast_ 7"},
		"internal/cast/a.md":     {"cast 1"},
		"internal/my_scene.yaml": {"my_scene 1"},
		"internal/broadcast.go":  {"scene 1", "cast 3", "HTTPScene 5", "scene2 5", "NewScenes 7", "cast_ 7", "typeCast 8"},
	} {
		content := source
		if filepath.Ext(file) != ".go" {
			content = "HTTPScene scene cast\n"
		}
		findings, err := r.check(file, content)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range findings {
			got = append(got, fmt.Sprintf("%s %d", f.phrase, f.line))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	if unused := r.unused(); len(unused) != 1 || unused[0].phrase != "scene" {
		t.Errorf("got %v as not needed, want that of b.go", unused)
	}
}

func TestExceptions(t *testing.T) {
	r, err := readRules([]byte("rules: [{pattern: crew}]\nallow: [{file: a.md, text: a ship's crew, reason: a quotation}, {file: b.md, text: crew, reason: a quotation}]"))
	if err != nil {
		t.Fatal(err)
	}
	findings, err := r.check("a.md", "It is a ship's crew.\nIt is a crew.\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != 1 || findings[0].line != 2 {
		t.Errorf("got %v, want the second line only", findings)
	}
	if unused := r.unused(); len(unused) != 1 || unused[0].phrase != "crew" {
		t.Errorf("got %v as not needed, want that of b.md", unused)
	}
	if _, err := readRules([]byte("allow: [{file: a.md, text: crew}]")); err == nil {
		t.Error("an exception without a reason is accepted")
	}
	if _, err := readRules([]byte("allow: [{file: a.md, reason: none}]")); err == nil {
		t.Error("an exception without a text is accepted")
	}
}
