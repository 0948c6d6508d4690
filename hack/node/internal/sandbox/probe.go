//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
)

// Probe tries the features of the kernel that a node needs, in temporary namespaces. It runs the copy
// of this binary with args, which must call Try.
func Probe(folder config.Folder, args ...string) error {
	if output, err := command(folder.Program(), args...).CombinedOutput(); err != nil {
		message := strings.TrimSpace(string(output))
		if message == "" {
			message = "it cannot make namespaces; run a container with --privileged, or use a virtual machine"
		}
		return fmt.Errorf("this machine's kernel cannot run a node (%w):\n%s", err, message)
	}
	return nil
}

// Try returns all features that the kernel lacks, each with the next step.
func Try(folder config.Folder) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating mounts: %w", err)
	}
	var errs []error
	for _, feature := range []struct {
		try  func() error
		hint string
	}{
		{
			func() error { return tryOverlay(folder.Probe()) },
			"containerd keeps images with overlayfs: choose a folder with --dir on ext4, xfs or tmpfs, or load the module overlay",
		},
		{func() error { return ip("link add probe0 type bridge") }, "load the module bridge"},
		{func() error { return ip("link add probe1 type veth peer name probe2") }, "load the module veth"},
		{
			func() error {
				return run("nft", "add table ip probe; add chain ip probe nat { type nat hook prerouting priority 0; }")
			},
			"kube-proxy needs nftables with NAT: load the modules nf_tables and nft_chain_nat",
		},
	} {
		if err := feature.try(); err != nil {
			errs = append(errs, fmt.Errorf("%w\n  (%s)", err, feature.hint))
		}
	}
	return errors.Join(errs...)
}

func tryOverlay(folder string) error {
	defer os.RemoveAll(folder)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			return err
		}
	}
	// Relative paths, because a comma or colon in the options cannot be quoted. Nothing else in this
	// process depends on the working directory.
	if err := os.Chdir(folder); err != nil {
		return err
	}
	if err := mount("overlay", "merged", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work"); err != nil {
		return err
	}
	return syscall.Unmount("merged", syscall.MNT_DETACH)
}
