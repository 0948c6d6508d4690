package up

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnvironment reads the file in a real shell.
func TestEnvironment(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		folder string
		onPath []string // programs that are already on the PATH
		want   string
	}{
		"no programs on the PATH": {"demo", nil, "KUBECONFIG DEMO/kubeconfig\nringmaster DEMO/bin/ringmaster\nkubectl DEMO/assets/kubectl\n"},
		"a folder with a quote":   {"it's a demo", nil, "KUBECONFIG DEMO/kubeconfig\nringmaster DEMO/bin/ringmaster\nkubectl DEMO/assets/kubectl\n"},
		"kubectl on the PATH": {
			"demo",
			[]string{"kubectl"},
			"KUBECONFIG DEMO/kubeconfig\nringmaster DEMO/bin/ringmaster\nkubectl MINE/kubectl\n",
		},
		"another ringmaster on the PATH": {
			"demo",
			[]string{"ringmaster"},
			"KUBECONFIG DEMO/kubeconfig\nringmaster DEMO/bin/ringmaster\nkubectl DEMO/assets/kubectl\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, mine := filepath.Join(t.TempDir(), test.folder), filepath.Join(t.TempDir(), "my programs")
			program(t, filepath.Join(folder, "bin", "ringmaster"))
			program(t, filepath.Join(folder, "assets", "kubectl"))
			for _, name := range test.onPath {
				program(t, filepath.Join(mine, name))
			}
			path := filepath.Join(folder, envFile)
			content := environment(path, filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "bin"), filepath.Join(folder, "assets"))
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), shell, "-euc", ". "+quote(path)+`
sh=`+shell+`
for name in ringmaster kubectl; do found="$found$name $(command -v $name)
"; done
$sh -c 'echo "KUBECONFIG $KUBECONFIG"' # exported
printf %s "$found"`)
			cmd.Env = []string{"PATH=" + mine, "found="}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := strings.NewReplacer(folder, "DEMO", mine, "MINE").Replace(string(out))
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// program creates a program that does nothing.
func program(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}
