package main

import (
	"fmt"
	"regexp"
	"strings"
)

// reference is a test that a document names.
type reference struct {
	line int
	// dir is the folder that the document says it is in, or "".
	dir, name string
}

// finding is a problem in a line.
type finding struct {
	line int
	what string
}

var (
	code = regexp.MustCompile("`[^`]+`")
	// testName is a test with or without a subtest, bareName a subtest beside another one, folderName a package.
	testName   = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)[A-Z0-9_]\w*(/\S+)?$`)
	bareName   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	folderName = regexp.MustCompile(`^(\w+/)+\w+$`)
	separator  = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

// readReferences finds the tests that a document names, and the rows that should name one and do not: those of tables with a
// column whose title begins with "test".
func readReferences(document string) (found []reference, wrong []finding) {
	column, dir, previous := -1, "", ""
	number := 0
	for line := range strings.Lines(document) {
		number++
		line = strings.TrimSpace(line)
		isRow := strings.HasPrefix(line, "|")
		switch {
		case !isRow:
			column, previous = -1, ""
			found = append(found, named(number, "", line)...)
		case separator.MatchString(line):
			column, dir = testColumn(previous)
		case column < 0:
			found = append(found, named(number, "", line)...)
			previous = line
		default:
			for i, cell := range cells(line) {
				if i != column {
					found = append(found, named(number, "", cell)...)
					continue
				}
				references, problem := tests(number, dir, cell)
				found = append(found, references...)
				if problem != "" {
					wrong = append(wrong, finding{number, problem})
				}
			}
		}
	}
	return found, wrong
}

// cells are those of a row of a table.
func cells(row string) []string { return strings.Split(strings.Trim(row, "|"), "|") }

// testColumn finds the column of a table that names tests, and the folder that its title gives.
func testColumn(title string) (column int, dir string) {
	for i, cell := range cells(title) {
		cell = strings.TrimSpace(cell)
		if cell != "test" && !strings.HasPrefix(cell, "test ") && cell != "tests" {
			continue
		}
		for _, span := range code.FindAllString(cell, -1) {
			if span = strings.Trim(span, "`"); folderName.MatchString(span) {
				dir = span
			}
		}
		return i, dir
	}
	return -1, ""
}

// named finds the tests in a text. A folder before one ("`pkg/shard`'s `TestX`") is where it is.
func named(line int, dir, text string) []reference {
	var found []reference
	end, in := 0, ""
	for _, at := range code.FindAllStringIndex(text, -1) {
		span := text[at[0]+1 : at[1]-1]
		if text[end:at[0]] != "'s " {
			in = dir
		}
		if testName.MatchString(span) {
			found = append(found, reference{line, in, span})
		}
		in, end = dir, at[1]
		if folderName.MatchString(span) {
			in = span
		}
	}
	return found
}

// tests finds the tests in a cell that is there for them. A name without Test is a subtest beside the one before it.
func tests(line int, dir, cell string) (found []reference, problem string) {
	if strings.TrimSpace(cell) == "" {
		return nil, "the row names no test"
	}
	found = named(line, dir, cell)
	if len(found) == 0 {
		return nil, "the row names no test: " + strings.TrimSpace(cell)
	}
	parent := ""
	for _, span := range code.FindAllString(cell, -1) {
		span = strings.Trim(span, "`")
		switch {
		case testName.MatchString(span):
			parent = ""
			if i := strings.LastIndexByte(span, '/'); i > 0 {
				parent = span[:i+1]
			}
		case bareName.MatchString(span) && parent != "":
			found = append(found, reference{line, dir, parent + span})
		case bareName.MatchString(span):
			return found, fmt.Sprintf("%q is not the name of a test", span)
		}
	}
	return found, ""
}
