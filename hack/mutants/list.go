package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// mutant is a change of the product that breaks a promise, with the test that must notice it.
type mutant struct {
	// Name says what is broken.
	Name string `json:"name"`
	// File is changed, relative to the module: Old, which must be there exactly once, becomes New.
	File string `json:"file"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// Test is the test of Package, like TestX or TestX/name, that must fail with a message that matches Message.
	Package string `json:"package"`
	Test    string `json:"test"`
	Message string `json:"message"`
	// CI is whether it is applied for each change. Its test takes seconds and needs no API server.
	CI bool `json:"ci,omitempty"`
}

func read(path string) ([]mutant, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []mutant
	if err := yaml.UnmarshalStrict(content, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	names := map[string]bool{}
	for _, m := range all {
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("mutant %q in %s: %w", m.Name, path, err)
		}
		if names[m.Name] {
			return nil, fmt.Errorf("%s has two mutants with the name %q", path, m.Name)
		}
		names[m.Name] = true
	}
	return all, nil
}

func (m *mutant) validate() error {
	if m.Name == "" || m.File == "" || m.Old == "" || m.Package == "" || m.Test == "" || m.Message == "" {
		return errors.New("all of name, file, old, package, test and message are required")
	}
	if m.Old == m.New {
		return errors.New("it changes nothing")
	}
	_, err := regexp.Compile(m.Message)
	return err
}

// apply returns the changed content of the file.
func (m *mutant) apply(content string) (string, error) {
	if n := strings.Count(content, m.Old); n != 1 {
		return "", fmt.Errorf("%s has the text to replace %d times, not once", m.File, n)
	}
	return strings.Replace(content, m.Old, m.New, 1), nil
}

// topLevel is the name of the test without its subtests.
func (m *mutant) topLevel() string {
	name, _, _ := strings.Cut(m.Test, "/")
	return name
}

// pattern selects exactly the test, for go test's -run.
func (m *mutant) pattern() string {
	parts := strings.Split(m.Test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
