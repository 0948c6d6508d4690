package debian

import (
	"archive/tar"
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// buildPackage makes a package's tar. The content of a file has its dependencies, that of a link begins with an arrow.
func buildPackage(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		header := &tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if target, link := strings.CutPrefix(content, "-> "); link {
			header.Size, header.Typeflag, header.Linkname, content = 0, tar.TypeSymlink, target, ""
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return &packed
}

// readWords returns the words in a file as its dependencies. One with a slash is the loader.
func readWords(content []byte) (requirement, error) {
	var needs requirement
	for word := range strings.FieldsSeq(string(content)) {
		if strings.Contains(word, "/") {
			needs.loader = word
		} else {
			needs.libraries = append(needs.libraries, word)
		}
	}
	return needs, nil
}

func TestWith(t *testing.T) {
	system := map[string]string{
		"usr/sbin/serve":               "/lib64/ld.so.2 liba.so.1 libc.so.6",
		"usr/bin/other":                "libunused.so.1",
		"usr/lib/x/liba.so.1":          "-> liba.so.1.2.3",
		"usr/lib/x/liba.so.1.2.3":      "libb.so.1 libc.so.6",
		"usr/lib/x/fast/libb.so.1":     "",
		"lib/x/libb.so.1":              "liba.so.1", // in a circle
		"lib/x/libc.so.6":              "",
		"usr/lib/x/libunused.so.1":     "",
		"usr/lib64/ld.so.2":            "-> /lib/x/ld.so.2",
		"lib/x/ld.so.2":                "",
		"usr/sbin/broken":              "libmissing.so.1",
		"usr/share/a/link-in-a-circle": "-> link-in-a-circle",
	}
	for name, test := range map[string]struct {
		program string
		want    []string
		error   string
	}{
		"all dependencies": {program: "/usr/sbin/serve", want: []string{
			"lib/x/libb.so.1", "lib/x/libc.so.6", "lib64/ld.so.2", "usr/lib/x/liba.so.1", "usr/sbin/serve",
		}},
		"no such program":   {program: "/usr/sbin/none", error: "/usr/sbin/none"},
		"no such library":   {program: "/usr/sbin/broken", error: "libmissing.so.1"},
		"a circle of links": {program: "/usr/share/a/link-in-a-circle", error: "too many links"},
	} {
		t.Run(name, func(t *testing.T) {
			files := Files{}
			if err := files.read(buildPackage(t, system)); err != nil {
				t.Fatal(err)
			}
			got, err := files.with(test.program, readWords)
			if (err != nil) != (test.error != "") || err != nil && !strings.Contains(err.Error(), test.error) {
				t.Fatalf("error %v, want %q in it", err, test.error)
			}
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}
