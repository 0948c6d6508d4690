package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// rule refuses a phrase.
type rule struct {
	Pattern, Except, Example, Instead string

	regexp, except *regexp.Regexp
}

// exception is a text in a file that rules do not apply to.
type exception struct {
	File, Text, Reason string

	used bool
}

type rules struct {
	Rules []rule
	Allow []*exception
}

func readRules(content []byte) (*rules, error) {
	r := &rules{}
	if err := yaml.UnmarshalStrict(content, r); err != nil {
		return nil, fmt.Errorf("reading rules.yaml: %w", err)
	}
	for i := range r.Rules {
		rule, err := &r.Rules[i], error(nil)
		if rule.regexp, err = compile(rule.Pattern); err != nil {
			return nil, fmt.Errorf("reading rules.yaml: %w", err)
		}
		if rule.Except == "" {
			continue
		}
		if rule.except, err = compile(rule.Except); err != nil {
			return nil, fmt.Errorf("reading rules.yaml: %w", err)
		}
	}
	for _, e := range r.Allow {
		if e.Reason == "" {
			return nil, fmt.Errorf("reading rules.yaml: the exception %q in %s has no reason", e.Text, e.File)
		}
	}
	return r, nil
}

// compile compiles a pattern whose spaces also match ends of lines.
func compile(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("(?im)" + strings.ReplaceAll(pattern, " ", `\s+`))
}

// find returns where a text has refused phrases.
func (r *rule) find(text string) (found [][]int) {
	for _, at := range r.regexp.FindAllStringIndex(text, -1) {
		if r.except == nil || !r.except.MatchString(text[at[0]:at[1]]) {
			found = append(found, at)
		}
	}
	return found
}

// finding is a refused phrase.
type finding struct {
	file    string
	line    int
	phrase  string
	message string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q: %s", f.file, f.line, f.phrase, f.message)
}

// check returns the refused phrases in a file. Of Go sources it checks comments and strings.
func (r *rules) check(name, content string) (findings []finding, err error) {
	texts := []text{{1, content}}
	switch filepath.Ext(name) {
	case ".go":
		if texts, err = goTexts(name, content); err != nil {
			return nil, err
		}
	case ".md":
		texts[0].content = withoutCode(content)
	}
	for _, t := range texts {
		allowed := r.without(name, t.content)
		for i := range r.Rules {
			for _, at := range r.Rules[i].find(allowed) {
				line := t.line + strings.Count(allowed[:at[0]], "\n")
				phrase := strings.Join(strings.Fields(allowed[at[0]:at[1]]), " ")
				findings = append(findings, finding{name, line, phrase, "for example: " + r.Rules[i].Instead})
			}
		}
	}
	return findings, nil
}

// without blanks the texts that are exceptions in a file.
func (r *rules) without(name, content string) string {
	for _, e := range r.Allow {
		if e.File == name && strings.Contains(content, e.Text) {
			e.used = true
			content = strings.ReplaceAll(content, e.Text, strings.Repeat("#", len(e.Text)))
		}
	}
	return content
}

// unused returns the exceptions that no file needs.
func (r *rules) unused() (findings []finding) {
	for _, e := range r.Allow {
		if !e.used {
			findings = append(findings, finding{"hack/language/rules.yaml", 0, e.Text, "the exception is not needed: " + e.File + " does not have this text"})
		}
	}
	return findings
}

// text is a part of a file.
type text struct {
	line    int
	content string
}

// goTexts returns the comments and strings of a Go source. Comments on consecutive lines are one text, so that phrases
// across lines are found.
func goTexts(name, content string) (texts []text, err error) {
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(content))
	var s scanner.Scanner
	s.Init(file, []byte(content), func(at token.Position, message string) { err = fmt.Errorf("%s: %s", at, message) }, scanner.ScanComments)
	last := 0 // the line of the last comment
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return texts, err
		}
		line := file.Line(pos)
		switch {
		case tok == token.COMMENT && last == line-1 && len(texts) > 0:
			texts[len(texts)-1].content += "\n" + comment(literal)
			last = line
		case tok == token.COMMENT:
			texts = append(texts, text{line, comment(literal)})
			last = line
		case tok == token.STRING:
			texts = append(texts, text{line, strings.Trim(literal, "`\"")})
			last = 0
		case tok != token.SEMICOLON:
			last = 0
		}
	}
}

func comment(literal string) string { return strings.TrimSpace(strings.TrimPrefix(literal, "//")) }

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
