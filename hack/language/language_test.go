package main

import (
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
	plant("README.md", "The ring\ntells of it.\n\n```\nanew\n```\nBut `anew` is code.\n")
	plant("main.go", "// Package main asks the shard to let\n// go of it.\npackage main\n\n// Whoever calls it\n// must write the object\n// anew.\nvar help = `Write it\nanew`\n\nfunc anew() {}\n")
	plant("config/role.yaml", "# The Lease is held for ever.\nkind: Role\n")
	plant("zz_generated.deepcopy.go", "// anew\npackage main\n")
	plant("docs/reference/cli/ringmaster.md", "anew\n")
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
		"README.md tells of":        {2},
		"main.go let go":            {1},
		"main.go Whoever":           {5},
		"main.go anew":              {7, 9},
		"config/role.yaml for ever": {1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExceptions(t *testing.T) {
	r, err := readRules([]byte("rules: [{pattern: anew}]\nallow: [{file: a.md, text: begin anew, reason: a quotation}, {file: b.md, text: anew, reason: a quotation}]"))
	if err != nil {
		t.Fatal(err)
	}
	findings, err := r.check("a.md", "They begin anew.\nAnd end anew.\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != 1 || findings[0].line != 2 {
		t.Errorf("got %v, want the second line only", findings)
	}
	if unused := r.unused(); len(unused) != 1 || unused[0].phrase != "anew" {
		t.Errorf("got %v as not needed, want that of b.md", unused)
	}
	if _, err := readRules([]byte("allow: [{file: a.md, text: anew}]")); err == nil {
		t.Error("an exception without a reason is accepted")
	}
}
