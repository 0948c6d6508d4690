package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// programs are the links that the binary is started through.
var programs = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet",
}

const (
	binary      = "kubernetes"
	fingerprint = "fingerprint"
)

type build struct {
	source, output string
	shown          *progress
	version        string // of Kubernetes, such as v1.37.1
	want           string // the fingerprint of what is to be built
}

func (b *build) run(ctx context.Context) error {
	if err := b.read(); err != nil {
		return err
	}
	if b.upToDate() {
		fmt.Fprintf(b.shown.out, "Kubernetes %s is there already: %s\n", b.version, b.output)
		return nil
	}
	if err := os.MkdirAll(b.output, 0o755); err != nil {
		return err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if b.upToDate() { // somebody else built it while we waited
		return nil
	}
	if err := b.check(); err != nil {
		return err
	}
	return b.make(ctx)
}

// read finds out what is to be built.
func (b *build) read() error {
	manifest, err := os.ReadFile(filepath.Join(b.source, "go.mod"))
	if err != nil {
		return fmt.Errorf("reading what to build (run this from the repository's root): %w", err)
	}
	match := regexp.MustCompile(`k8s\.io/kubernetes (v\d+\.\d+\.\d+)`).FindSubmatch(manifest)
	if match == nil {
		return fmt.Errorf("%s/go.mod does not require k8s.io/kubernetes", b.source)
	}
	b.version = string(match[1])
	sources, err := filepath.Glob(filepath.Join(b.source, "*.go"))
	if err != nil {
		return err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, b.environment(), b.arguments(""))
	for _, file := range append(sources, filepath.Join(b.source, "go.mod"), filepath.Join(b.source, "go.sum")) {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(file), len(content), content)
	}
	b.want = hex.EncodeToString(hash.Sum(nil))
	return nil
}

// upToDate tells whether the folder has everything and was built from the same.
func (b *build) upToDate() bool {
	have, err := os.ReadFile(filepath.Join(b.output, fingerprint))
	if err != nil || string(have) != b.want {
		return false
	}
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(b.output, program)); err != nil {
			return false
		}
	}
	return true
}

// lock keeps two builds of one folder apart. The lock goes with the process.
func (b *build) lock(ctx context.Context) (unlock func(), err error) {
	const interval = 200 * time.Millisecond
	file, err := os.OpenFile(filepath.Join(b.output, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || ctx.Err() != nil {
			file.Close()
			return nil, errors.Join(fmt.Errorf("locking %s: %w", b.output, err), ctx.Err())
		}
		if !told {
			fmt.Fprintln(b.shown.out, "Waiting for another build of the same folder to end.")
		}
		time.Sleep(interval)
	}
}

// check finds out before the long work what would make it fail.
func (b *build) check() error {
	const gib, need = 1 << 30, 6
	for what, variable := range map[string]string{"Go's build cache": "GOCACHE", "Go's module cache": "GOMODCACHE"} {
		out, err := exec.Command("go", "env", variable).Output()
		if err != nil {
			return fmt.Errorf("asking go for its %s (is Go %s or newer installed and on the PATH?): %w", variable, "1.26", err)
		}
		folder := strings.TrimSpace(string(out))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("%s cannot be written; set %s to a folder that can: %w", what, variable, err)
		}
		var disk syscall.Statfs_t
		if err := syscall.Statfs(folder, &disk); err != nil {
			continue
		}
		free := disk.Bavail * uint64(disk.Bsize) / gib //nolint:gosec // no disk has blocks of negative size
		if free < need {
			fmt.Fprintf(b.shown.out, "Only %d GiB are free for %s (%s); a first build needs about %d. "+
				"If it fails, free some or set %s to another disk.\n", free, what, folder, need, variable)
		}
	}
	return nil
}

// make fetches, compiles and installs.
func (b *build) make(ctx context.Context) error {
	last := readTimings(b.output)
	took := timings{}
	fmt.Fprintf(b.shown.out, "Building Kubernetes %s from its Go modules, once. "+
		"The first time takes about 10 minutes on 2 cores; later builds use Go's cache.\n", b.version)

	began := time.Now()
	stale, err := b.fetch(ctx, last.Fetch)
	if err != nil {
		return err
	}
	took.Fetch = time.Since(began)

	began = time.Now()
	folder, err := b.newFolder()
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	fresh := filepath.Join(folder, binary)
	if err := b.compile(ctx, fresh, stale, last.Compile); err != nil {
		return err
	}
	took.Compile = time.Since(began)

	if err := b.try(ctx, fresh); err != nil {
		return err
	}
	if err := b.install(fresh); err != nil {
		return err
	}
	took.write(b.output)
	fmt.Fprintf(b.shown.out, "Kubernetes %s is in %s (%s).\n", b.version, b.output, round(took.Fetch+took.Compile))
	return nil
}

// fetch downloads the modules and returns how many packages there are to compile.
func (b *build) fetch(ctx context.Context, last time.Duration) (stale int, err error) {
	step := b.shown.begin("1/2 fetching modules", last)
	defer func() { step.end(err) }()
	var list bytes.Buffer
	downloaded := 0
	cmd := b.command(ctx, "list", "-deps", "-trimpath", "-f", "{{.Stale}}", ".")
	cmd.Stdout = &list
	err = runLines(cmd, func(line string) bool {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			downloaded++
			step.show(downloaded, 0, module)
			return true
		}
		return false
	})
	if err != nil {
		return 0, explain("fetching the modules", err)
	}
	return strings.Count(list.String(), "true"), nil
}

func (b *build) compile(ctx context.Context, target string, stale int, last time.Duration) (err error) {
	step := b.shown.begin("2/2 compiling and linking", last)
	defer func() { step.end(err) }()
	compiled := 0
	err = runLines(b.command(ctx, b.arguments(target)...), func(line string) bool {
		if strings.ContainsAny(line, " :#\t") || !strings.Contains(line, "/") && strings.ContainsAny(line, ".") {
			return false
		}
		compiled++
		step.show(compiled, stale, line)
		return true
	})
	return explain("compiling Kubernetes", err)
}

// newFolder makes a folder for what is not finished yet, and removes those of builds that were
// killed: nobody else has the lock.
func (b *build) newFolder() (string, error) {
	const prefix = ".new-"
	old, err := filepath.Glob(filepath.Join(b.output, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, folder := range old {
		if err := os.RemoveAll(folder); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(b.output, prefix)
}

// try sees the new binary work before the old one goes.
func (b *build) try(ctx context.Context, fresh string) error {
	kubectl := filepath.Join(filepath.Dir(fresh), "kubectl")
	if err := os.Symlink(fresh, kubectl); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, kubectl, "version", "--client").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the binary was built but does not run (is %s on a disk mounted noexec?): %w\n%s", b.output, err, out)
	}
	if !strings.Contains(string(out), b.version) {
		return fmt.Errorf("the binary was built but does not run as kubectl %s; it says:\n%s", b.version, out)
	}
	return nil
}

// install puts the new binary in place. The fingerprint comes last: until it is there the folder
// does not count as built.
func (b *build) install(fresh string) error {
	if err := errors.Join(
		removeIfThere(filepath.Join(b.output, fingerprint)),
		os.Rename(fresh, filepath.Join(b.output, binary)),
	); err != nil {
		return err
	}
	for _, program := range programs {
		link := filepath.Join(b.output, program)
		if err := errors.Join(removeIfThere(link), os.Symlink(binary, link)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(b.output, fingerprint), []byte(b.want), 0o644)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (b *build) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), b.environment()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go removes its own temporary files
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = diesWithUs() // or it would go on without the lock
	return cmd
}

func (b *build) environment() []string { return []string{"CGO_ENABLED=0"} }

// arguments of go, to build into target. The linker is told the version, which otherwise comes
// from Kubernetes' own release scripts.
func (b *build) arguments(target string) []string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(b.version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := []string{"-s", "-w"}
	for _, setting := range []string{
		"gitVersion=" + b.version, "gitMajor=" + major, "gitMinor=" + minor, "gitTreeState=clean", "gitCommit=",
	} {
		flags = append(flags, "-X k8s.io/component-base/version."+setting)
	}
	return []string{"build", "-v", "-trimpath", "-buildvcs=false", "-ldflags=" + strings.Join(flags, " "), "-o", target, "."}
}
