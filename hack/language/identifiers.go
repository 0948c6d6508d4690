package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// word refuses a word in identifiers and in names of files and folders.
type word struct {
	// Word is a regular expression for a whole word.
	Word, Instead string

	regexp *regexp.Regexp
}

// identifier is a declared name, or a part of the path of a file.
type identifier struct {
	line int // 0 for a part of a path
	name string
}

// checkIdentifiers returns the refused words in the path of a file and, for Go sources, in the names that the file declares.
// Each name is returned once.
func (r *rules) checkIdentifiers(name, content string) (findings []finding, err error) {
	found := pathIdentifiers(name)
	if filepath.Ext(name) == ".go" {
		declared, err := declarations(name, content)
		if err != nil {
			return nil, err
		}
		found = append(found, declared...)
	}
	seen := map[string]bool{}
	for _, id := range found {
		if seen[id.name] {
			continue
		}
		seen[id.name] = true
		for _, part := range words(id.name) {
			if w := r.refused(part); w != nil && !r.allowed(name, id.name) {
				message := fmt.Sprintf("%q is not a name for this; write, for example, %s", part, w.Instead)
				findings = append(findings, finding{name, max(id.line, 1), id.name, message})
			}
		}
	}
	return findings, nil
}

func (r *rules) refused(part string) *word {
	for i := range r.Words {
		if r.Words[i].regexp.MatchString(part) {
			return &r.Words[i]
		}
	}
	return nil
}

// allowed reports whether an identifier is an exception in a file.
func (r *rules) allowed(file, name string) bool {
	for _, e := range r.Allow {
		if e.Identifier == name && e.matches(file) {
			e.used = true
			return true
		}
	}
	return false
}

// pathIdentifiers returns the folders and the base of a path.
func pathIdentifiers(name string) (found []identifier) {
	for part := range strings.SplitSeq(strings.TrimSuffix(name, path.Ext(name)), "/") {
		found = append(found, identifier{0, part})
	}
	return found
}

// words splits an identifier or a file name into words in lower case: HTTPServer_2 into http and server.
func words(name string) []string {
	name = afterSmall.ReplaceAllString(name, "$1 $2")
	name = afterCapitals.ReplaceAllString(name, "$1 $2")
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' })
}

// Where a word begins in an identifier: at a capital letter after a small one, and at the last of several before a small one.
var (
	afterSmall    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	afterCapitals = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// declarations returns the names that a Go source declares: its package, what it imports under another name, types, functions,
// fields, parameters, constants, variables and labels.
func declarations(name, content string) (found []identifier, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(names ...*ast.Ident) {
		for _, id := range names {
			if id != nil {
				found = append(found, identifier{files.Position(id.Pos()).Line, id.Name})
			}
		}
	}
	addExpressions := func(all ...ast.Expr) {
		for _, expression := range all {
			if id, ok := expression.(*ast.Ident); ok {
				add(id)
			}
		}
	}
	add(file.Name)
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			add(node.Name)
		case *ast.FuncDecl:
			add(node.Name)
		case *ast.TypeSpec:
			add(node.Name)
		case *ast.ValueSpec:
			add(node.Names...)
		case *ast.Field:
			add(node.Names...)
		case *ast.LabeledStmt:
			add(node.Label)
		case *ast.AssignStmt:
			if node.Tok == token.DEFINE {
				addExpressions(node.Lhs...)
			}
		case *ast.RangeStmt:
			if node.Tok == token.DEFINE {
				addExpressions(node.Key, node.Value)
			}
		}
		return true
	})
	return found, nil
}
