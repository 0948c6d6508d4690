package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "example.org/module"

// api is the API of a package with the given source.
func api(t *testing.T, source string) []string {
	t.Helper()
	return describe(module, typeCheck(t, module+"/pkg/lib", "package lib\n"+source, imports{
		"io": typeCheck(t, "io", "package io\ntype (Reader interface{}; Writer interface{}; Closer interface{})", nil),
	}))
}

func typeCheck(t *testing.T, path, source string, importer types.Importer) *types.Package {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "source.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: importer}
	checked, err := config.Check(path, files, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return checked
}

// imports are packages by path. The sources of Go's own are not always there.
type imports map[string]*types.Package

func (i imports) Import(path string) (*types.Package, error) {
	if i[path] == nil {
		return nil, fmt.Errorf("package %s not found", path)
	}
	return i[path], nil
}

func TestDescribe(t *testing.T) {
	got := api(t, `
import "io"

const Size, hidden = 3, 4

const Name Kind = "name"

type Kind string

var Err error

func Do(to io.Writer, each func(name string, n ...int) error) (count int, err error) { return 0, nil }

func Map[T any](all []T) T { return all[0] }

type Options struct {
	Name  string `+"`json:\"name\"`"+`
	inner int
	io.Reader
	options
}

type options struct{ Promoted int }

func (o *options) Reset() {}
func (o Options) Valid() bool { return true }
func (o *Options) private() {}

type Store interface {
	io.Closer
	Get(key string) string
}

type Sealed interface {
	Get(key string) string
	sealed()
}

type Other = hiddenType

type hiddenType struct{ Field int }

func (hiddenType) Method() {}
`)
	want := []string{
		`pkg/lib: const Name Kind = "name"`,
		`pkg/lib: const Size untyped int = 3`,
		`pkg/lib: func Do(io.Writer, func(string, ...int) error) (int, error)`,
		`pkg/lib: func Map[T any](all []T) T`,
		`pkg/lib: method (*Options) Reset()`,
		`pkg/lib: method (Options) Valid() bool`,
		`pkg/lib: method (Other) Method()`,
		`pkg/lib: type Kind string`,
		`pkg/lib: type Options struct`,
		`pkg/lib: type Options struct, Name string ` + "`json:\"name\"`",
		`pkg/lib: type Options struct, Promoted int`,
		`pkg/lib: type Options struct, embedded io.Reader`,
		`pkg/lib: type Other = hiddenType`,
		`pkg/lib: type Other struct`,
		`pkg/lib: type Other struct, Field int`,
		`pkg/lib: type Sealed interface { unexported methods }`,
		`pkg/lib: type Sealed interface, Get(string) string`,
		`pkg/lib: type Store interface { Get, embeds io.Closer }`,
		`pkg/lib: type Store interface, Get(string) string`,
		`pkg/lib: var Err error`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestChanges plants changes and sees which of them have to be explained.
func TestChanges(t *testing.T) {
	const before = `
const Label = "a/b"
type Options struct{ Name string }
type Store interface{ Get(key string) string }
func New(o Options) error { return nil }
`
	for name, test := range map[string]struct {
		change [2]string
		// removed are the lines that disappear.
		removed []string
	}{
		"nothing":                     {},
		"renamed parameter":           {change: [2]string{"New(o ", "New(options "}},
		"new function":                {change: [2]string{"func New", "func Old() {}\nfunc New"}},
		"new field":                   {change: [2]string{"Name string", "Name, Other string"}},
		"new parameter":               {change: [2]string{"(o Options)", "(o Options, n int)"}, removed: []string{"pkg/lib: func New(Options) error"}},
		"new method of an interface":  {change: [2]string{"interface{ ", "interface{ Put(); "}, removed: []string{"pkg/lib: type Store interface { Get }"}},
		"another value of a constant": {change: [2]string{"a/b", "a/c"}, removed: []string{`pkg/lib: const Label untyped string = "a/b"`}},
		"another type of a field":     {change: [2]string{"Name string", "Name []string"}, removed: []string{"pkg/lib: type Options struct, Name string"}},
		"removed function":            {change: [2]string{"func New(o Options) error { return nil }", ""}, removed: []string{"pkg/lib: func New(Options) error"}},
	} {
		t.Run(name, func(t *testing.T) {
			after := before
			if test.change[0] != "" {
				after = strings.ReplaceAll(before, test.change[0], test.change[1])
			}
			got := compare(api(t, before), api(t, after), nil)
			if diff := cmp.Diff(test.removed, got.unexplained); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	const a, b, c = "pkg/lib: func A()", "pkg/lib: func B()", "pkg/lib: func C()"
	for name, test := range map[string]struct {
		accepted, explained string
		now, want           []string
		// fails is a part of the error, says of what is printed.
		fails, says string
	}{
		"nothing changed":          {accepted: a + "\n" + b, now: []string{a, b}, want: []string{a, b}},
		"something new":            {accepted: a, now: []string{a, b}, want: []string{a, b}},
		"first time":               {now: []string{a, b}, want: []string{a, b}},
		"removed":                  {accepted: a + "\n" + b, now: []string{a}, want: []string{a, b}, fails: "1 incompatible changes", says: "removed: " + b},
		"removed, with a reason":   {accepted: a + "\n" + b, now: []string{a}, want: []string{a}, explained: "# C does the same.\n" + b},
		"another one has a reason": {accepted: a + "\n" + b, now: []string{a}, want: []string{a, b}, explained: "# Why not.\n" + c, fails: "1 incompatible"},
		"explained, not removed":   {accepted: a + "\n" + b, now: []string{a, b}, want: []string{a, b}, explained: "# C does it.\n" + b, fails: "not removed", says: "not removed: " + b},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			accepted, explained := filepath.Join(folder, "accepted.txt"), filepath.Join(folder, "explained.txt")
			if test.accepted != "" {
				write(t, accepted, test.accepted)
			}
			write(t, explained, test.explained)
			var out bytes.Buffer
			err := update(accepted, explained, test.now, &out)
			if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("got the error %v, not %q", err, test.fails)
			}
			if !strings.Contains(out.String(), test.says) {
				t.Errorf("it says %q", &out)
			}
			content, err := os.ReadFile(accepted)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, parseAPI(string(content))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestParseReasons(t *testing.T) {
	got, err := parseReasons("# One,\n# in two lines.\na\nb\n# Another one.\nc\n\n# An introduction.\n\n# The last one.\nd\n")
	want := map[string]string{"a": "One, in two lines.", "b": "One, in two lines.", "c": "Another one.", "d": "The last one."}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := parseReasons("# A reason.\na\n\nb\n"); !errors.Is(err, errNoReason) {
		t.Errorf("a line without a reason passes: %v", err)
	}
}
