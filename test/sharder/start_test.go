package sharder_test

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestBadStarts end at once, and say in one line what to do. cmd/sharder/app has a test of every bad
// value; these are those that need the whole program.
func TestBadStarts(t *testing.T) {
	f := setUp(t)
	good := func(s settings) []string {
		return []string{"--config", f.configure(&replica{webhook: f.port(), metrics: f.port(), health: f.port()}, s)}
	}
	empty := rig.TempDir(t)
	for name, test := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"no such file":        {[]string{"--config", filepath.Join(empty, "missing.yaml")}, "", "reading the configuration that --config names"},
		"bad value":           {good(settings{config: "controller: {sharder: {concurrentMoves: 0}}"}), "", "controller.sharder.concurrentMoves: Invalid value: 0: must be at least 1"},
		"unknown field":       {good(settings{config: "contoller: {}"}), "", `unknown field "contoller"`},
		"no such certificate": {good(settings{webhook: "  server: {certDir: " + empty + "}"}), "", "loading the certificate that webhook.server names (without a certDir the sharder makes its own): open " + filepath.Join(empty, "tls.crt")},
		"no such kubeconfig":  {good(settings{}), "KUBECONFIG=" + filepath.Join(empty, "missing"), "name a kubeconfig with KUBECONFIG or clientConnection.kubeconfig"},
		"bad port":            {append(good(settings{}), "--webhook-port", "0"), "", "--webhook-port 0: must be between 1 and 65535"},
		"bad flag":            {[]string{"--confg", "x"}, "", "unknown flag: --confg"},
		"nobody's argument":   {[]string{"x"}, "", `unknown command "x"`},
	} {
		p := f.Start(t, rig.Process{
			Name: "sharder-0", ServiceAccount: "sharder", Roles: []string{"config/rbac"},
			Binary: rig.Build(t, "./cmd/sharder", rig.Race), Args: test.args, Env: []string{test.env},
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := p.Wait(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: it ended with %v", name, err)
		}
		cancel()
		lines := p.Tail(10)
		f.Expect(lines).To(HavePrefix("Error: "), name)
		f.Expect(lines).To(ContainSubstring(test.want), name)
		f.Expect(lines).NotTo(ContainSubstring("\n"), name)
	}
}
