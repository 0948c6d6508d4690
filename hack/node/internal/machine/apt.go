//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Install installs packages with the distribution's tool, and writes what that says to log.
//
// It is not ended early when the caller is: half-installed packages are worse than a wait.
func Install(packages []string, log string) error {
	names := strings.Join(packages, " ")
	if _, err := FindProgram("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks what Debian has in the packages %s: install it with your distribution's tool", names)
	}
	allow, err := denyServices(policyFile)
	if err != nil {
		return fmt.Errorf("keeping new services from being started: %w", err)
	}
	defer allow()

	install := append([]string{"install", "--yes", "--no-install-recommends"}, packages...)
	if aptGet(log, install...) == nil {
		return nil
	}
	// The lists of packages may be missing or old, as in most images. That a list of somebody else's
	// cannot be had is no reason to fail.
	listed := aptGet(log, "update")
	if err := aptGet(log, install...); err != nil {
		err = errors.Join(listed, err)
		return fmt.Errorf("installing %s: %w; see %s, and try 'apt-get install --no-install-recommends %s'", names, err, log, names)
	}
	return nil
}

func aptGet(log string, args ...string) error {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("apt-get", append([]string{"-o", "DPkg::Lock::Timeout=60"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+Path, "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = out, out
	// Ctrl-C in the terminal is for us, not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	return nil
}

// policyFile is what Debian's packages ask before they start a service.
const policyFile = "/usr/sbin/policy-rc.d"

// policy denies all. The comment is how we know it again, should we be killed before removing it.
const policy = `#!/bin/sh
# Made by ringmaster's test node while it installs packages; remove it when it is still here.
exit 101
`

// denyServices keeps packages from starting services until the returned function is called. A
// policy that is there already is somebody's choice, and stays.
func denyServices(path string) (allow func(), err error) {
	existing, err := os.ReadFile(path)
	switch {
	case err == nil && string(existing) != policy:
		return func() {}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := os.WriteFile(path, []byte(policy), 0o700); err != nil {
		return nil, err
	}
	return func() { allowServices(path) }, nil
}

// AllowServices removes what a killed installation left.
func AllowServices() { allowServices(policyFile) }

func allowServices(path string) {
	if existing, err := os.ReadFile(path); err == nil && string(existing) == policy {
		_ = os.Remove(path) // Leftovers tells when it is still there
	}
}
