//go:build linux

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Install installs packages with apt-get, and appends its output to log. It cannot be cancelled,
// because an interrupted installation leaves packages half installed.
func Install(packages []string, log string) error {
	names := strings.Join(packages, " ")
	if _, err := FindProgram("apt-get"); err != nil {
		return fmt.Errorf("apt-get not found: install what Debian has in the packages %s with the tool of your distribution", names)
	}
	allow, err := denyServices(policyFile)
	if err != nil {
		return fmt.Errorf("preventing the start of new services: %w", err)
	}
	defer allow()

	install := append([]string{"install", "--yes", "--no-install-recommends"}, packages...)
	if aptGet(log, install...) == nil {
		return nil
	}
	// The lists of packages may be missing or old, as in most images. An unreachable list of a third
	// party is not an error.
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
	// Ctrl-C in the terminal must not interrupt it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	return nil
}

// policyFile is a program that Debian's packages run before they start a service.
const policyFile = "/usr/sbin/policy-rc.d"

// policy denies all starts. Its comment identifies it if this process is killed before it removes the file.
const policy = `#!/bin/sh
# Written by Ringmaster's test node while it installs packages. It can be removed.
exit 101
`

// denyServices prevents packages from starting services until the returned function is called. A
// policy of the machine's administrator stays in place.
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

// AllowServices removes the policy that a killed installation left.
func AllowServices() { allowServices(policyFile) }

func allowServices(path string) {
	if existing, err := os.ReadFile(path); err == nil && string(existing) == policy {
		_ = os.Remove(path) // Leftovers lists it
	}
}
