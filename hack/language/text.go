package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// text is a part of a file that people read.
type text struct {
	line    int
	content string
}

// texts returns the parts of a file that people read: of Go sources comments and strings, of Markdown all but code, and all
// of other files.
func texts(name, content string) ([]text, error) {
	switch filepath.Ext(name) {
	case ".go":
		return goTexts(name, content)
	case ".md":
		return []text{{1, withoutCode(content)}}, nil
	default:
		return []text{{1, blankCommentMarks(content)}}, nil
	}
}

// goTexts returns the comments and strings of a Go source. Comments on consecutive lines are one text, and so are strings that
// are added, so that phrases across lines are found.
func goTexts(name, content string) (texts []text, err error) {
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(content))
	var s scanner.Scanner
	s.Init(file, []byte(content), func(at token.Position, message string) { err = fmt.Errorf("%s: %s", at, message) }, scanner.ScanComments)
	last := 0          // the line of the last comment
	concatenation := 0 // the text of the last string, if nothing but an operator followed
	joined := false
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return texts, err
		}
		line := file.Line(pos)
		switch {
		case tok == token.COMMENT && last == line-1 && len(texts) > 0:
			texts[len(texts)-1].content += "\n" + comment(literal)
			last, concatenation = line, 0
		case tok == token.COMMENT:
			texts = append(texts, text{line, comment(literal)})
			last, concatenation = line, 0
		case tok == token.STRING && concatenation > 0 && joined:
			previous := &texts[concatenation-1]
			missing := line - previous.line - strings.Count(previous.content, "\n")
			previous.content += strings.Repeat("\n", max(missing, 0)) + unquote(literal)
			joined = false
		case tok == token.STRING:
			texts = append(texts, text{line, unquote(literal)})
			last, concatenation, joined = 0, len(texts), false
		case tok == token.ADD:
			last, joined = 0, true
		case tok != token.SEMICOLON:
			last, concatenation, joined = 0, 0, false
		}
	}
}

func comment(literal string) string { return strings.TrimSpace(strings.TrimPrefix(literal, "//")) }

// unquote removes the quotes of a string, and keeps the number of its lines.
func unquote(literal string) string {
	return strings.NewReplacer(`\n`, " ", `\t`, " ").Replace(strings.Trim(literal, "`\""))
}

// withoutCode blanks the code blocks and code spans of a Markdown document, and keeps its lines.
func withoutCode(document string) string {
	lines, inBlock := strings.Split(document, "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			inBlock = !inBlock
		}
		if fence || inBlock {
			lines[i] = ""
		} else {
			lines[i] = codeSpan.ReplaceAllStringFunc(line, func(code string) string { return strings.Repeat("#", len(code)) })
		}
	}
	return strings.Join(lines, "\n")
}

var codeSpan = regexp.MustCompile("`[^`]+`")

// withoutMarks blanks the marks of comments at the beginning of lines, so that phrases across lines are found.
func blankCommentMarks(content string) string {
	return commentMark.ReplaceAllStringFunc(content, func(mark string) string { return strings.Repeat(" ", len(mark)) })
}

var commentMark = regexp.MustCompile(`(?m)^[ \t]*(#|//)`)
