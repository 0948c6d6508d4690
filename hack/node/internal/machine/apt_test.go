//go:build linux

package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestServicesAreDeniedForTheTimeBeing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	for range 2 {
		allow, err := denyServices(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
			t.Fatalf("no policy that can be run: %v, %v", info, err)
		}
		allow()
		if _, err := os.Stat(path); err == nil {
			t.Fatal("the policy stays")
		}
	}
}

func TestSomebodysPolicyStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	const others = "#!/bin/sh\nexit 0\n"
	if err := os.WriteFile(path, []byte(others), 0o700); err != nil {
		t.Fatal(err)
	}
	allow, err := denyServices(path)
	if err != nil {
		t.Fatal(err)
	}
	allow()
	if content, err := os.ReadFile(path); err != nil || string(content) != others {
		t.Errorf("the policy is %q, %v; want it untouched", content, err)
	}
}

func TestKilledInstallationIsCleanedUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	if _, err := denyServices(path); err != nil {
		t.Fatal(err)
	}
	allow, err := denyServices(path) // the next one, after the first was killed
	if err != nil {
		t.Fatal(err)
	}
	allow()
	if _, err := os.Stat(path); err == nil {
		t.Error("our own policy was taken for somebody's")
	}
}
