package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nonroot is the ID of the user that programs run as, as in distroless images. Kubernetes' "runAsNonRoot" needs
// a number.
const nonroot = 65532

// epoch is the time of all files in an image: the current time would change the digest.
var epoch = time.Unix(0, 0).UTC()

type builder struct {
	root     string // of the repository
	registry string
	tag      string
	arch     string
	packages string // the folder with the distribution's packages
}

// builtImage is an image that was written.
type builtImage struct {
	reference string
	digest    v1.Hash
	size      int64 // of the layers, compressed
}

// build makes the image and writes it to file.
func (b builder) build(i image, file string) (builtImage, error) {
	assembled, err := b.assemble(i)
	if err != nil {
		return builtImage{}, err
	}
	return b.write(i, assembled, file)
}

func (b builder) assemble(i image) (v1.Image, error) {
	if i.packaged != nil {
		return b.assemblePackaged(i.name, i.packaged)
	}
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	binary := filepath.Join(folder, i.name)
	if err := b.compile(i, binary); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	program := []entry{{path: i.name, mode: 0o755, content: content}}
	return assemble(i.name, b.arch, program, v1.Config{Entrypoint: []string{"/" + i.name}})
}

// compile builds a static binary that does not depend on the folder and time of the build.
func (b builder) compile(i image, target string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", target, i.program)
	cmd.Dir = filepath.Join(b.root, i.module)
	// The caller's workspace and flags must not change an image.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.arch, "GOWORK=off", "GOFLAGS=")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s in %s: %w\n%s", i.program, cmd.Dir, err, output)
	}
	return nil
}

// assemble makes an image of files and a configuration.
func assemble(title, arch string, files []entry, run v1.Config) (v1.Image, error) {
	// Users before the program, so that the lower layer never changes.
	users, err := newLayer(userFiles())
	if err != nil {
		return nil, err
	}
	content, err := newLayer(files)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(empty.Image,
		mutate.Addendum{Layer: users, History: v1.History{CreatedBy: "users", Created: v1.Time{Time: epoch}}},
		mutate.Addendum{Layer: content, History: v1.History{CreatedBy: title, Created: v1.Time{Time: epoch}}},
	)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: epoch}
	config.Config = run
	config.Config.User = fmt.Sprintf("%d:%d", nonroot, nonroot)
	config.Config.WorkingDir = "/"
	labels := map[string]string{"org.opencontainers.image.title": title}
	maps.Copy(labels, run.Labels)
	config.Config.Labels = labels
	return mutate.ConfigFile(image, config)
}

// write writes the image as a tar, atomically: a node may load the images meanwhile.
func (b builder) write(i image, assembled v1.Image, file string) (builtImage, error) {
	reference, err := name.NewTag(fmt.Sprintf("%s/%s:%s", b.registry, i.name, b.tag), name.StrictValidation)
	if err != nil {
		return builtImage{}, err
	}
	partial := file + ".partial"
	defer os.Remove(partial)
	if err := tarball.WriteToFile(partial, reference, assembled); err != nil {
		return builtImage{}, err
	}
	if err := os.Rename(partial, file); err != nil {
		return builtImage{}, err
	}
	return measure(reference, assembled)
}

func measure(reference name.Tag, assembled v1.Image) (builtImage, error) {
	digest, err := assembled.Digest()
	if err != nil {
		return builtImage{}, err
	}
	manifest, err := assembled.Manifest()
	if err != nil {
		return builtImage{}, err
	}
	// Not reference.Name(), which says index.docker.io where every runtime says docker.io.
	result := builtImage{reference: reference.String(), digest: digest, size: manifest.Config.Size}
	for _, l := range manifest.Layers {
		result.size += l.Size
	}
	return result, nil
}
