package main

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// rule refuses a phrase.
type rule struct {
	Pattern, Except, Example, Instead string

	regexp, except *regexp.Regexp
}

// exception is a text or an identifier that rules do not apply to.
type exception struct {
	// File is a file, a pattern as for path.Match, or a folder followed by /** for all files below it.
	File string
	// Text is allowed wherever the file has it. Identifier is allowed as a whole.
	Text, Identifier string
	Reason           string

	used bool
}

func (e *exception) matches(file string) bool {
	if folder, ok := strings.CutSuffix(e.File, "/**"); ok {
		return strings.HasPrefix(file, folder+"/")
	}
	matched, err := path.Match(e.File, file)
	return err == nil && matched
}

type rules struct {
	Rules []rule
	Words []word
	Allow []*exception
}

func readRules(content []byte) (*rules, error) {
	r := &rules{}
	if err := yaml.UnmarshalStrict(content, r); err != nil {
		return nil, fmt.Errorf("reading rules.yaml: %w", err)
	}
	for i := range r.Rules {
		if err := r.Rules[i].compile(); err != nil {
			return nil, fmt.Errorf("reading rules.yaml: %w", err)
		}
	}
	for i := range r.Words {
		var err error
		if r.Words[i].regexp, err = regexp.Compile("^(?:" + r.Words[i].Word + ")$"); err != nil {
			return nil, fmt.Errorf("reading rules.yaml: %w", err)
		}
	}
	for _, e := range r.Allow {
		if e.Reason == "" || (e.Text == "") == (e.Identifier == "") {
			return nil, fmt.Errorf("reading rules.yaml: the exception %q in %s needs a reason, and either a text or an identifier", e.Text+e.Identifier, e.File)
		}
	}
	return r, nil
}

func (r *rule) compile() (err error) {
	if r.regexp, err = compile(r.Pattern); err != nil || r.Except == "" {
		return err
	}
	r.except, err = compile(r.Except)
	return err
}

// compile compiles a pattern whose spaces also match ends of lines.
func compile(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("(?im)" + strings.ReplaceAll(pattern, " ", `\s+`))
}

// find returns the positions of refused phrases in a text.
func (r *rule) find(text string) (found [][]int) {
	for _, span := range r.regexp.FindAllStringIndex(text, -1) {
		if r.except == nil || !r.except.MatchString(text[span[0]:span[1]]) {
			found = append(found, span)
		}
	}
	return found
}

// finding is a refused phrase or identifier.
type finding struct {
	file    string
	line    int
	phrase  string
	message string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q: %s", f.file, f.line, f.phrase, f.message)
}

// check returns the refused phrases and identifiers in a file.
func (r *rules) check(name, content string) (findings []finding, err error) {
	parts, err := texts(name, content)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		checked := r.withoutExceptions(name, part.content)
		for i := range r.Rules {
			for _, span := range r.Rules[i].find(checked) {
				line := part.line + strings.Count(checked[:span[0]], "\n")
				phrase := strings.Join(strings.Fields(checked[span[0]:span[1]]), " ")
				findings = append(findings, finding{name, line, phrase, fmt.Sprintf("write, for example, %q", r.Rules[i].Instead)})
			}
		}
	}
	identifiers, err := r.checkIdentifiers(name, content)
	return append(findings, identifiers...), err
}

// withoutExceptions blanks the texts that are allowed in a file.
func (r *rules) withoutExceptions(name, content string) string {
	for _, e := range r.Allow {
		if e.Text != "" && e.matches(name) && strings.Contains(content, e.Text) {
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
			findings = append(findings, finding{"hack/language/rules.yaml", 0, cmp.Or(e.Text, e.Identifier), "the exception is not needed: " + e.File + " does not have it"})
		}
	}
	return findings
}
