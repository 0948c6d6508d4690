//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/host"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
)

func newLoad(o *options) *cobra.Command {
	var ifRunning bool
	command := &cobra.Command{
		Use:   "load TAR...",
		Short: "Load images into the node, from the tars of 'make images'",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, images []string) error {
			node, err := o.running()
			switch {
			case errors.Is(err, errDown) && ifRunning:
				return nil
			case err != nil:
				return err
			}
			if err := load(command.Context(), node, images); err != nil {
				return err
			}
			fmt.Printf("Loaded %s\n", strings.Join(images, ", "))
			return nil
		},
	}
	command.Flags().BoolVar(&ifRunning, "if-running", false, "do nothing if the node is not running")
	return command
}

// load loads images into a node's containerd.
func load(ctx context.Context, node pidfile.Info, images []string) error {
	ctr, err := host.FindProgram("ctr")
	if err != nil {
		return err
	}
	for _, image := range images {
		// The socket is in a private folder of the node.
		cmd := exec.CommandContext(ctx, ctr,
			"--address", filepath.Join(node.Root(), config.ContainerdSocket),
			"--namespace", "k8s.io", // the namespace of the kubelet's images
			"images", "import", image)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("loading %s: %w: %s", image, err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}

// imageName returns the name of the image in a tar.
func imageName(file string) (string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		return "", fmt.Errorf("reading the image %s (build it with 'make images'): %w", file, err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 {
		return "", fmt.Errorf("%s must have one image with one name: build it with 'make images'", file)
	}
	return manifest[0].RepoTags[0], nil
}
