//go:build linux

package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHierarchies(t *testing.T) {
	for name, test := range map[string]struct {
		mountinfo string
		want      []Hierarchy
	}{
		"version 1": {
			mountinfo: `20 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 20 0:27 / /sys/fs/cgroup rw,nosuid - tmpfs none rw,mode=755
32 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup none rw,cpu,cpuacct
33 31 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup none rw,name=systemd`,
			want: []Hierarchy{
				{Path: "/sys/fs/cgroup/cpu,cpuacct", Controllers: []string{"rw", "cpu", "cpuacct"}},
				{Path: "/sys/fs/cgroup/systemd", Controllers: []string{"rw", "name=systemd"}},
			},
		},
		"version 2": {
			mountinfo: `31 20 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 none rw,nsdelegate`,
			want:      []Hierarchy{{Path: "/sys/fs/cgroup", Unified: true}},
		},
		"none": {mountinfo: "20 1 254:0 / / rw - ext4 /dev/vda rw\nnonsense\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseHierarchies(strings.NewReader(test.mountinfo))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyTheNodesCgroupsAreRemoved(t *testing.T) {
	var hierarchies []Hierarchy
	for _, name := range []string{"memory", "cpu", "empty"} {
		hierarchies = append(hierarchies, Hierarchy{Path: filepath.Join(t.TempDir(), name)})
	}
	for _, folder := range []string{
		hierarchies[0].Path + "/node-1/kubepods/burstable/pod1/container",
		hierarchies[0].Path + "/node-10/kubepods",
		hierarchies[1].Path + "/node-1/kubepods",
		hierarchies[1].Path + "/system",
	} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	paths := cgroupPaths(hierarchies, "node-1")
	want := []string{hierarchies[0].Path + "/node-1", hierarchies[1].Path + "/node-1"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Fatalf("the node's cgroups (-want +got):\n%s", diff)
	}
	for _, path := range paths {
		if err := removeTree(path); err != nil {
			t.Error(err)
		}
		if err := removeTree(path); err != nil {
			t.Errorf("removing it again: %v", err)
		}
	}
	if left := cgroupPaths(hierarchies, "node-1"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for _, other := range []string{hierarchies[0].Path + "/node-10/kubepods", hierarchies[1].Path + "/system"} {
		if _, err := os.Stat(other); err != nil {
			t.Errorf("another cgroup was removed: %v", err)
		}
	}
}

func TestFilesAreNeverRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "node")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "precious")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(folder); err == nil {
		t.Error("a folder with files, which is not a cgroup, was removed")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
