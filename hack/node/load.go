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

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/machine"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/record"
)

func newLoad(o *options) *cobra.Command {
	var ifRunning bool
	command := &cobra.Command{
		Use:   "load TAR...",
		Short: "Give images to the node, from tars as 'make images' writes them",
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
			fmt.Printf("The node has %s.\n", strings.Join(images, ", "))
			return nil
		},
	}
	command.Flags().BoolVar(&ifRunning, "if-running", false, "do nothing when the node is not running")
	return command
}

// load gives images to a node's containerd.
func load(ctx context.Context, node record.Record, images []string) error {
	ctr, err := machine.FindProgram("ctr")
	if err != nil {
		return err
	}
	for _, image := range images {
		// The socket is in a folder that only the node sees.
		cmd := exec.CommandContext(ctx, ctr,
			"--address", filepath.Join(node.Root(), layout.ContainerdSocket),
			"--namespace", "k8s.io", // where kubelet's images are
			"images", "import", image)
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("loading %s: %w: %s", image, err, strings.TrimSpace(string(said)))
		}
	}
	return nil
}

// imageName reads the name of the one image in a tar.
func imageName(file string) (string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		return "", fmt.Errorf("reading the image %s (build it with 'make images'): %w", file, err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 {
		return "", fmt.Errorf("%s is not one image with one name: build it with 'make images'", file)
	}
	return manifest[0].RepoTags[0], nil
}
