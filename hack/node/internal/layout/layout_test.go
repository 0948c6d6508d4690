package layout_test

import (
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
)

func TestNew(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		ok   bool
	}{
		"the default":            {"/var/lib/ringmaster-node", true},
		"in somebody's home":     {"/home/someone/node", true},
		"a name that starts so":  {"/running/node", true},
		"none":                   {"", false},
		"everything":             {"/", false},
		"everything, disguised":  {"/home/..", false},
		"a private folder":       {"/var/lib", false},
		"in memory":              {"/run/node", false},
		"in memory, by its link": {"/var/run/node", false},
		"in the kernel":          {"/sys/fs/cgroup/node", false},
	} {
		t.Run(name, func(t *testing.T) {
			folder, err := layout.New(test.path)
			if (err == nil) != test.ok {
				t.Errorf("New(%q) = %q, %v; want ok %t", test.path, folder, err, test.ok)
			}
		})
	}
}

func TestCgroupBelongsToOneFolder(t *testing.T) {
	one, other := layout.Folder("/var/lib/one").Cgroup(), layout.Folder("/var/lib/other").Cgroup()
	if one == other {
		t.Errorf("two nodes share the cgroup %s", one)
	}
	if one != layout.Folder("/var/lib/one").Cgroup() {
		t.Error("the cgroup of a folder changes: what a crash leaves behind could not be found")
	}
	if strings.ContainsAny(one, "/.") {
		t.Errorf("%s is not a plain name", one)
	}
}
