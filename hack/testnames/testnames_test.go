package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const sources = `//go:build long

package some_test

import "testing"

var modes = map[string]int{"in-process": 1}

func TestShards(t *testing.T) {
	for name, play := range map[string]func(){"Killed": nil, "Cut off": nil} {
		t.Run(name, func(t *testing.T) { play() })
	}
}

func TestModes(t *testing.T) {
	for name := range modes {
		t.Run(name, func(t *testing.T) { helper(t, "not a subtest") })
	}
}

func helper(t *testing.T, text string) { t.Run("Inner", func(*testing.T) {}) }

func BenchmarkAll(b *testing.B) {}

func (f fixture) TestMethod() {}
`

// TestWrongNames plants names of tests that do not exist.
func TestWrongNames(t *testing.T) {
	const table = "| promise | test |\n| --- | --- |\n"
	for name, test := range map[string]struct {
		document string
		want     []string
	}{
		"a test":                        {table + "| x | `TestShards` |", nil},
		"a subtest":                     {table + "| x | `TestShards/Killed`, `Cut_off` |", nil},
		"a table in a variable":         {table + "| x | `TestModes/in-process` |", nil},
		"a subtest in a helper":         {table + "| x | `TestModes/in-process/Inner` |", nil},
		"a benchmark":                   {table + "| x | `BenchmarkAll` (`make bench`) |", nil},
		"its package":                   {table + "| x | `test/some`'s `TestShards` |", nil},
		"its package in the title":      {"| promise | test in `test/some` |\n| --- | --- |\n| x | `TestShards` |", nil},
		"in a sentence":                 {"It is checked by `TestShards/Killed`.", nil},
		"another table":                 {"| a | b |\n| --- | --- |\n| x | |", nil},
		"wrong test":                    {table + "| x | `TestShard` |", []string{"doc.md:3: test TestShard not found"}},
		"wrong subtest":                 {table + "| x | `TestShards/Hung` |", []string{"doc.md:3: test TestShards/Hung not found"}},
		"wrong subtest beside another":  {table + "| x | `TestShards/Killed`, `Hung` |", []string{"doc.md:3: test TestShards/Hung not found"}},
		"text that is not a subtest":    {table + "| x | `TestModes/not_a_subtest` |", []string{"doc.md:3: test TestModes/not_a_subtest not found"}},
		"subtest of another test":       {table + "| x | `TestModes/Killed` |", []string{"doc.md:3: test TestModes/Killed not found"}},
		"method":                        {table + "| x | `TestMethod` |", []string{"doc.md:3: test TestMethod not found"}},
		"wrong package":                 {table + "| x | `test/other`'s `TestShards` |", []string{"doc.md:3: test TestShards not found in test/other"}},
		"wrong package in the title":    {"| promise | test in `test/other` |\n| --- | --- |\n| x | `TestShards` |", []string{"doc.md:3: test TestShards not found in test/other"}},
		"no test":                       {table + "| x | |", []string{"doc.md:3: the row names no test"}},
		"all tests":                     {table + "| x | all of them |", []string{"doc.md:3: the row names no test: all of them"}},
		"not a test":                    {table + "| x | none yet |", []string{"doc.md:3: the row names no test: none yet"}},
		"a name that is not a test's":   {table + "| x | `TestShards`, `Killed` |", []string{`doc.md:3: "Killed" is not the name of a test`}},
		"wrong, in a sentence":          {"It is checked by `TestShards/Nobody`.", []string{"doc.md:1: test TestShards/Nobody not found"}},
		"wrong, in another table's row": {"| a | b |\n| --- | --- |\n| `BenchmarkNone` | |", []string{"doc.md:3: test BenchmarkNone not found"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{
				"test/some/some_test.go": {Data: []byte(sources)},
				"test/other/o_test.go":   {Data: []byte("package other")},
				"doc.md":                 {Data: []byte(test.document)},
			}
			got, err := check(tree, "*.md")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMissingDocument(t *testing.T) {
	if _, err := check(fstest.MapFS{}, "guarantees.md"); err == nil || !strings.Contains(err.Error(), "guarantees.md") {
		t.Errorf("got %v", err)
	}
}
