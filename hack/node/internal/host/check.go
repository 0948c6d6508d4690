//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// components are the programs of Kubernetes that a node runs.
var components = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl",
}

// Check returns all reasons why a node cannot run here that are visible without starting one.
func Check(assets, pauseImage string) error {
	return errors.Join(CheckRoot(), checkCgroups(), checkAssets(assets), checkImage(pauseImage))
}

// CheckRoot fails for users other than root.
func CheckRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root, because it mounts file systems, makes devices and limits processes: run this with sudo")
	}
	return nil
}

func checkCgroups() error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	var missing []string
	for _, controller := range delegated {
		if !slices.ContainsFunc(hierarchies, func(h Hierarchy) bool { return h.has(controller) }) {
			missing = append(missing, controller)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroup controllers %s not found: mount them below /sys/fs/cgroup; in a container, "+
			"use those of the host (such as docker run --privileged --cgroupns=host)", strings.Join(missing, ", "))
	}
	return nil
}

func checkAssets(folder string) error {
	if folder == "" {
		return errors.New("the folder with Kubernetes' programs is not set: build them with 'make kubernetes', and set --assets or KUBEBUILDER_ASSETS")
	}
	for _, name := range components {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("%w: build Kubernetes' programs with 'make kubernetes'", err)
		}
	}
	return nil
}

func checkImage(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%w: every pod needs this image; build it with 'make images'", err)
	}
	return nil
}
