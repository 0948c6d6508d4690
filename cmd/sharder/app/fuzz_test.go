package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/sharder"
)

// FuzzConfig reads any configuration file. It is either refused with an error or has all defaults.
func FuzzConfig(f *testing.F) {
	const header = "apiVersion: config.sharding.timebertt.dev/v1alpha1\nkind: SharderConfig\n"
	for _, seed := range []string{
		"", header, header + "webhook: {config: {clientConfig: {url: https://a}}}", header + "controller: {sharder: {syncPeriod: -1s}}",
		header + "leaderElection: {leaseDuration: 1ns}", header + "webhook: {config: {clientConfig: {caBundle: AAAA}}}", "kind: SharderConfig", "{", header + "unknown: 1",
	} {
		f.Add([]byte(seed))
	}
	scheme, err := sharder.Scheme()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := readConfig(scheme, path)
		if err == nil && (config.Controller.Sharder == nil || config.LeaderElection == nil || config.Webhook.Config.ClientConfig == nil) {
			t.Errorf("a default is missing: %+v", config)
		}
	})
}
