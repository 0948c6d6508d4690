package config

import (
	"strings"
	"testing"
)

func TestNewFolder(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		ok   bool
	}{
		"the default":                 {"/var/lib/ringmaster-node", true},
		"in a home folder":            {"/home/someone/node", true},
		"a name with that prefix":     {"/running/node", true},
		"none":                        {"", false},
		"the root":                    {"/", false},
		"the root, by another path":   {"/home/..", false},
		"a private folder":            {"/var/lib", false},
		"in memory":                   {"/run/node", false},
		"in memory, by its link":      {"/var/run/node", false},
		"a file system of the kernel": {"/sys/fs/cgroup/node", false},
	} {
		t.Run(name, func(t *testing.T) {
			folder, err := NewFolder(test.path)
			if (err == nil) != test.ok {
				t.Errorf("NewFolder(%q) = %q, %v; want ok %t", test.path, folder, err, test.ok)
			}
		})
	}
}

func TestCgroupBelongsToOneFolder(t *testing.T) {
	one, other := Folder("/var/lib/one").Cgroup(), Folder("/var/lib/other").Cgroup()
	if one == other {
		t.Errorf("two nodes share the cgroup %s", one)
	}
	if one != Folder("/var/lib/one").Cgroup() {
		t.Error("the cgroup of a folder changes: the next command does not find what a crash left")
	}
	if strings.ContainsAny(one, "/.") {
		t.Errorf("%s is not a name of one folder", one)
	}
}
