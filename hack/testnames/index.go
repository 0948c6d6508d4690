package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// index has the names that the test files of a tree declare, by folder. Build tags do not count.
type index map[string]*folder

// folder is a package's test files.
type folder struct {
	// declared are functions, methods, variables and constants by name.
	declared map[string][]ast.Node
}

// readTests parses all test files.
func readTests(tree fs.FS) (index, error) {
	found := index{}
	files := token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(files, name, content, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("reading tests: %w", err)
		}
		found.add(path.Dir(name), parsed)
		return nil
	})
	return found, err
}

func (x index) add(dir string, file *ast.File) {
	if x[dir] == nil {
		x[dir] = &folder{declared: map[string][]ast.Node{}}
	}
	in := x[dir]
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			// Methods too: a subtest can be declared in one.
			in.declared[d.Name.Name] = append(in.declared[d.Name.Name], d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range values.Names {
						in.declared[name.Name] = append(in.declared[name.Name], values)
					}
				}
			}
		}
	}
}

// has reports whether a test of some name is there, in a folder or anywhere. Each part of a subtest's name has to be in
// what the test function mentions, directly or not: as the name in a t.Run, or in a table.
func (x index) has(dir, name string) bool {
	test, subtests, _ := strings.Cut(name, "/")
	for in, f := range x {
		if dir != "" && in != dir || !f.isTest(test) {
			continue
		}
		if subtests == "" {
			return true
		}
		names := map[string]bool{}
		f.namesIn(test, names, map[string]bool{})
		all := true
		for part := range strings.SplitSeq(subtests, "/") {
			all = all && names[part]
		}
		if all {
			return true
		}
	}
	return false
}

func (f *folder) isTest(name string) bool {
	for _, node := range f.declared[name] {
		if function, ok := node.(*ast.FuncDecl); ok && function.Recv == nil {
			return true
		}
	}
	return false
}

// namesIn collects what can be the names of subtests in a declaration, and in those that it mentions.
func (f *folder) namesIn(declared string, names, visited map[string]bool) {
	if visited[declared] {
		return
	}
	visited[declared] = true
	for _, node := range f.declared[declared] {
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				f.namesIn(n.Name, names, visited)
			case *ast.CompositeLit:
				for _, element := range n.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						addName(names, pair.Key)
						addName(names, pair.Value)
					}
					addName(names, element)
				}
			case *ast.CallExpr:
				if selector, ok := n.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Run" && len(n.Args) > 1 {
					addName(names, n.Args[0])
				}
			}
			return true
		})
	}
}

// addName adds a literal, as package testing writes it.
func addName(names map[string]bool, expression ast.Expr) {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return
	}
	if text, err := strconv.Unquote(literal.Value); err == nil {
		names[strings.ReplaceAll(text, " ", "_")] = true
	}
}
