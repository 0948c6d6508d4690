package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFoldersComeBeforeTheirFiles(t *testing.T) {
	var got []string
	for _, e := range withFolders([]entry{{path: "usr/sbin/nginx"}, {path: "usr/share/nginx/"}, {path: "etc/nginx/mime.types"}, {path: "top"}}) {
		got = append(got, e.path)
	}
	want := []string{"usr/", "usr/sbin/", "usr/sbin/nginx", "usr/share/", "usr/share/nginx/", "etc/", "etc/nginx/", "etc/nginx/mime.types", "top"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// Most builds do not need the distribution's programs, and some systems do not have apt-get.
func TestUnavailableImageIsLeftOut(t *testing.T) {
	b := repository(t)
	b.packages = t.TempDir()
	t.Setenv("PATH", t.TempDir()) // without apt-get
	before := images
	t.Cleanup(func() { images = before })
	images = []image{{name: "nginx", packaged: nginx}}
	if err := run(b, t.TempDir(), nil); err != nil {
		t.Errorf("building all images without apt-get: %v", err)
	}
	output := t.TempDir()
	if err := run(b, output, []string{"nginx"}); err == nil {
		t.Error("an unavailable image that was asked for is not an error")
	}
	if left, err := filepath.Glob(filepath.Join(output, "*")); err != nil || len(left) > 0 {
		t.Errorf("a failed build left %v, %v", left, err)
	}
}
