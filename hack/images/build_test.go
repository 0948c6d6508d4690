package main

import (
	"archive/tar"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// repository writes a module with one program and returns a builder for it.
func repository(t *testing.T) builder {
	t.Helper()
	root := t.TempDir()
	for file, content := range map[string]string{
		"go.mod":  "module example.com/greeter\n\ngo 1.26.0\n",
		"main.go": "package main\n\nfunc main() { println(\"hello\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return builder{root: root, registry: "docker.io/ringmaster", tag: "dev", arch: runtime.GOARCH}
}

var greeter = image{name: "greeter", module: ".", program: "."}

func TestSameSourcesGiveTheSameImage(t *testing.T) {
	var digests []string
	var files [][]byte
	for range 2 {
		file := filepath.Join(t.TempDir(), "greeter.tar")
		result, err := repository(t).build(greeter, file)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		digests, files = append(digests, result.digest.String()), append(files, content)
	}
	if digests[0] != digests[1] {
		t.Errorf("the digest depends on where the sources are: %s and %s", digests[0], digests[1])
	}
	if !slices.Equal(files[0], files[1]) {
		t.Error("the tar depends on where the sources are")
	}
}

func TestImageHasOneProgramAndItsUser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "greeter.tar")
	result, err := repository(t).build(greeter, file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "docker.io/ringmaster/greeter:dev"; result.reference != want {
		t.Errorf("the name of the image is %s, want %s", result.reference, want)
	}
	read, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := read.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("user %s on %s/%s, want 65532:65532 on linux/%s", config.Config.User, config.OS, config.Architecture, runtime.GOARCH)
	}
	if diff := cmp.Diff([]string{"/greeter"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	files := unpack(t, mutate.Extract(read))
	want := []string{"etc", "etc/group", "etc/passwd", "greeter"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if files["greeter"]&0o111 == 0 {
		t.Error("the program is not executable")
	}
}

// unpack returns the modes of all files.
func unpack(t *testing.T, packed io.ReadCloser) map[string]int64 {
	t.Helper()
	defer packed.Close()
	modes := map[string]int64{}
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(epoch) {
			t.Errorf("%s was changed at %s, want %s", header.Name, header.ModTime, epoch)
		}
		modes[filepath.Clean(header.Name)] = header.Mode
	}
}

func TestFailedBuildLeavesNoTar(t *testing.T) {
	b := repository(t)
	file := filepath.Join(t.TempDir(), "greeter.tar")
	if _, err := b.build(image{name: "greeter", module: ".", program: "./missing"}, file); err == nil {
		t.Error("a package that does not exist was built")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a failed build left a tar")
	}
}

func TestChoose(t *testing.T) {
	all := []image{{name: "one"}, {name: "two"}}
	for name, test := range map[string]struct {
		wanted []string
		names  string
		failed bool
	}{
		"all without a name": {names: "one, two"},
		"the named one":      {wanted: []string{"two"}, names: "two"},
		"an unknown one":     {wanted: []string{"three"}, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(all, test.wanted)
			if (err != nil) != test.failed || names(chosen) != test.names {
				t.Errorf("chose %q, %v; want %q, error %t", names(chosen), err, test.names, test.failed)
			}
		})
	}
}

func TestPackagesOfImagesExist(t *testing.T) {
	for _, i := range images {
		if i.packaged != nil {
			continue
		}
		sources, err := filepath.Glob(filepath.Join("..", "..", i.module, i.program, "*.go"))
		if err != nil || len(sources) == 0 {
			t.Errorf("image %s: no Go files in %s of module %s", i.name, i.program, i.module)
		}
	}
}
