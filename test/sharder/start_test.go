package sharder_test

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestInvalidStartsEndWithOneLine with the next step. The package cmd/sharder/app tests every invalid value;
// these cases need the whole program.
func TestInvalidStartsEndWithOneLine(t *testing.T) {
	f := setUp(t)
	empty := rig.TempDir(t)
	for name, test := range map[string]struct {
		config string
		args   []string
		env    string
		want   string
	}{
		"no such file":        {"", []string{"--config", filepath.Join(empty, "missing.yaml")}, "", "reading the configuration file in --config"},
		"bad value":           {"controller: {sharder: {concurrentMoves: 0}}", nil, "", "controller.sharder.concurrentMoves: Invalid value: 0: must be at least 1"},
		"unknown field":       {"contoller: {}", nil, "", `unknown field "contoller"`},
		"no such certificate": {"webhook: {server: {certDir: " + empty + "}}", nil, "", "loading the certificate in webhook.server.certDir (without certDir, the sharder issues its own): open " + filepath.Join(empty, "tls.crt")},
		"no such kubeconfig":  {"", nil, "KUBECONFIG=" + filepath.Join(empty, "missing"), "set KUBECONFIG or clientConnection.kubeconfig"},
		"bad port":            {"", []string{"--webhook-port", "0"}, "", "--webhook-port 0: must be between 1 and 65535"},
		"bad flag":            {"", []string{"--confg", "x"}, "", "unknown flag: --confg"},
		"unknown argument":    {"", []string{"x"}, "", `unknown command "x"`},
	} {
		p := f.run(rig.SharderOptions{Name: "sharder-0", Config: test.config, Args: test.args, Env: []string{test.env}})
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
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
