package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const kubeconfigWithoutCurrentContext = `
apiVersion: v1
kind: Config
clusters:
- {name: there, cluster: {server: "https://example.com"}}
users:
- {name: me, user: {token: secret}}
contexts:
- {name: a, context: {cluster: there, user: me}}
- {name: b, context: {cluster: there, user: me}}
`

// TestNoCurrentContext never falls back to the server on localhost that is kubectl's default.
func TestNoCurrentContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfigWithoutCurrentContext), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	for _, flags := range [][]string{{}, {"--kubeconfig", path}} {
		c, command := &cluster{}, &cobra.Command{}
		c.addClusterFlags(command)
		if err := command.ParseFlags(flags); err != nil {
			t.Fatal(err)
		}
		if config, err := c.config(); err == nil || !strings.Contains(err.Error(), "set --context (available: a, b)") {
			t.Errorf("%v: %v, %v", flags, config, err)
		}
	}
	for _, flags := range [][]string{{"--context", "a"}, {"--cluster", "there"}} {
		c, command := &cluster{}, &cobra.Command{}
		c.addClusterFlags(command)
		if err := command.ParseFlags(flags); err != nil {
			t.Fatal(err)
		}
		if config, err := c.config(); err != nil || config.Host != "https://example.com" {
			t.Errorf("%v: %v, %v", flags, config, err)
		}
	}
}
