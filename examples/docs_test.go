package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestProgramsInDocuments compiles the programs that documents contain, and decodes their ControllerRings.
func TestProgramsInDocuments(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```(go|yaml)\n(.*?\n)```$")
	for document, want := range map[string]struct{ programs, rings int }{
		"tutorial/first-operator.md": {programs: 1, rings: 1},
		"how-to/adopt.md":            {rings: 1},
		"how-to/install.md":          {rings: 1},
	} {
		t.Run(document, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join("..", "docs", document))
			if err != nil {
				t.Fatal(err)
			}
			programs, rings := 0, 0
			for _, found := range block.FindAllStringSubmatch(string(content), -1) {
				switch text := found[2]; {
				case found[1] == "go" && strings.Contains(text, "package main\n"):
					programs++
					vet(t, text)
				case found[1] == "yaml" && strings.Contains(text, "kind: ControllerRing\n"):
					rings++
					if err := yaml.UnmarshalStrict([]byte(text), &shardingv1alpha1.ControllerRing{}); err != nil {
						t.Errorf("%v in\n%s", err, text)
					}
				}
			}
			if programs != want.programs || rings != want.rings {
				t.Errorf("got %d programs and %d ControllerRings, want %+v", programs, rings, want)
			}
		})
	}
}

// vet compiles a program with the requirements of this module.
func vet(t *testing.T, program string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}
