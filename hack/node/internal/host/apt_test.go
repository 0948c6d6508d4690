//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestServicesAreDeniedUntilAllowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	for range 2 {
		allow, err := denyServices(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
			t.Fatalf("no executable policy: %v, %v", info, err)
		}
		allow()
		if _, err := os.Stat(path); err == nil {
			t.Fatal("the policy is not removed")
		}
	}
}

func TestOtherPolicyStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	const other = "#!/bin/sh\nexit 0\n"
	if err := os.WriteFile(path, []byte(other), 0o700); err != nil {
		t.Fatal(err)
	}
	allow, err := denyServices(path)
	if err != nil {
		t.Fatal(err)
	}
	allow()
	if content, err := os.ReadFile(path); err != nil || string(content) != other {
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
		t.Error("the policy of the killed installation was taken for another")
	}
}
