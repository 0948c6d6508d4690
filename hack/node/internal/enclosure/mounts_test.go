//go:build linux

package enclosure

import "testing"

func TestCovered(t *testing.T) {
	for path, want := range map[string]bool{
		"/var/lib/ringmaster-node":              true,
		"/var/lib/agent/clone/bin/kubernetes":   true,
		"/var/libexec/node":                     false,
		"/home/someone/ringmaster/bin/assembly": false,
	} {
		if got := covered(path); got != want {
			t.Errorf("covered(%s) = %t, want %t", path, got, want)
		}
	}
}
