package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// programs are the programs of a control plane and a node. The binary is started through links with their names.
var programs = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet",
}

const (
	binary      = "kubernetes"
	fingerprint = "fingerprint"
)

// build builds the programs that the user does not have, and links all of them in one folder.
type build struct {
	source, output string
	existing       string // the folder with programs that the user has, or ""
	progress       *progress

	version string // of Kubernetes, such as v1.37.1
	reused  existingPrograms
	missing []string // the programs to build
	want    string   // the fingerprint of the result
}

func (b *build) run(ctx context.Context) error {
	if err := b.read(); err != nil {
		return err
	}
	if b.upToDate() {
		fmt.Fprintf(b.progress.out, "Kubernetes' programs are up to date in %s: %s\n", b.output, b.contents())
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
	if b.upToDate() { // another build ended while this one waited
		return nil
	}
	if err := b.reuse(ctx); err != nil {
		return err
	}
	if len(b.missing) == 0 {
		return b.install("")
	}
	if err := b.check(); err != nil {
		return err
	}
	return b.make(ctx)
}

// contents says which programs the folder has, for people.
func (b *build) contents() string {
	switch reused := slices.Sorted(maps.Keys(b.reused.paths)); {
	case len(reused) == 0:
		return "version " + b.version
	case len(b.missing) == 0:
		return "all from " + b.existing
	default:
		return fmt.Sprintf("%s from %s; %s built, version %s", enumerate(reused), b.existing, enumerate(b.missing), b.version)
	}
}

// reuse checks the programs that the user has, and prints them.
func (b *build) reuse(ctx context.Context) error {
	if b.existing == "" {
		return nil
	}
	described, err := b.reused.check(ctx)
	if err != nil {
		return err
	}
	if len(described) == 0 {
		fmt.Fprintf(b.progress.out, "%s names %s, which has none of Kubernetes' programs: building all\n", variable, b.existing)
		return nil
	}
	building := "building nothing"
	if len(b.missing) > 0 {
		building = "building " + enumerate(b.missing)
	}
	fmt.Fprintf(b.progress.out, "Using %s from %s (%s); %s\n", enumerate(described), b.existing, variable, building)
	if skewed := b.reused.skewed(b.version); len(skewed) > 0 {
		fmt.Fprintf(b.progress.out, "Warning: %s of version %s will be newer than kube-apiserver, which Kubernetes does not support: "+
			"if it fails, unset %s to build all programs\n", enumerate(skewed), b.version, variable)
	}
	return nil
}

// read reads the list of programs to build.
func (b *build) read() error {
	var err error
	if b.reused, err = findExisting(b.existing); err != nil {
		return err
	}
	b.missing = b.reused.missing()
	identity, err := b.reused.identity()
	if err != nil {
		return err
	}
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
	fmt.Fprint(hash, identity)
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

// upToDate reports whether the folder has all programs, from the same sources and the same existing programs.
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

// lock excludes other builds of the folder. The kernel releases it when the process ends.
func (b *build) lock(ctx context.Context) (unlock func(), err error) {
	const interval = 200 * time.Millisecond
	file, err := os.OpenFile(filepath.Join(b.output, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for announced := false; ; announced = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || ctx.Err() != nil {
			file.Close()
			return nil, errors.Join(fmt.Errorf("locking %s: %w", b.output, err), ctx.Err())
		}
		if !announced {
			fmt.Fprintln(b.progress.out, "Waiting for another build of the same folder to end")
		}
		time.Sleep(interval)
	}
}

// check fails early for reasons that would make the build fail late.
func (b *build) check() error {
	const gib, need = 1 << 30, 6
	for name, setting := range map[string]string{"Go's build cache": "GOCACHE", "Go's module cache": "GOMODCACHE"} {
		out, err := exec.Command("go", "env", setting).Output()
		if err != nil {
			return fmt.Errorf("reading %s with 'go env' (is Go 1.26 or newer installed and on the PATH?): %w", setting, err)
		}
		folder := strings.TrimSpace(string(out))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("making the folder of %s: set %s to a folder that can be written: %w", name, setting, err)
		}
		var disk syscall.Statfs_t
		if err := syscall.Statfs(folder, &disk); err != nil {
			continue
		}
		free := disk.Bavail * uint64(disk.Bsize) / gib //nolint:gosec // no disk has blocks of negative size
		if free < need {
			fmt.Fprintf(b.progress.out, "Only %d GiB are free for %s (%s), and a first build needs about %d. "+
				"If it fails, free some space or set %s to a folder on another disk.\n", free, name, folder, need, setting)
		}
	}
	return nil
}

// make fetches, compiles and installs.
func (b *build) make(ctx context.Context) error {
	last := readTimings(b.output)
	took := timings{}
	fmt.Fprintf(b.progress.out, "Building %s of Kubernetes %s from Go modules. "+
		"The first build of all programs takes about 10 minutes on 2 cores; later builds use Go's cache.\n", enumerate(b.missing), b.version)

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
	fmt.Fprintf(b.progress.out, "Kubernetes %s is built in %s after %s\n", b.version, b.output, round(took.Fetch+took.Compile))
	return nil
}

// fetch downloads the modules and returns the number of packages to compile.
func (b *build) fetch(ctx context.Context, last time.Duration) (stale int, err error) {
	step := b.progress.begin("1/2 fetching modules", last)
	defer func() { step.end(err) }()
	var list bytes.Buffer
	downloaded := 0
	cmd := b.command(ctx, "list", "-deps", "-trimpath", "-tags="+b.tags(), "-f", "{{.Stale}}", ".")
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
	step := b.progress.begin("2/2 compiling and linking", last)
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

// newFolder makes a folder for the unfinished build, and removes the folders of builds that were
// killed. The caller holds the lock.
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

// try runs the new binary before it replaces the old one.
func (b *build) try(ctx context.Context, fresh string) error {
	program, want := b.missing[len(b.missing)-1], b.version
	if slices.Contains(b.missing, "kubectl") {
		program = "kubectl"
	} else if program == "etcd" {
		want = "" // it has a version of its own
	}
	link := filepath.Join(filepath.Dir(fresh), program)
	if err := os.Symlink(fresh, link); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, link, versionArguments(program)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the binary was built but does not run (is %s on a disk mounted noexec?): %w\n%s", b.output, err, out)
	}
	if !strings.Contains(string(out), want) {
		return fmt.Errorf("the binary was built but does not run as %s %s; it prints:\n%s", program, b.version, out)
	}
	return nil
}

// install moves the new binary into the folder and links all programs. It writes the fingerprint
// last, because the folder counts as built when that exists. Without a new binary, no program was built.
func (b *build) install(fresh string) error {
	if err := removeIfThere(filepath.Join(b.output, fingerprint)); err != nil {
		return err
	}
	if fresh != "" {
		if err := os.Rename(fresh, filepath.Join(b.output, binary)); err != nil {
			return err
		}
	}
	for _, program := range programs {
		link, target := filepath.Join(b.output, program), cmp.Or(b.reused.paths[program], binary)
		if err := errors.Join(removeIfThere(link), os.Symlink(target, link)); err != nil {
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
	cmd.SysProcAttr = diesWithParent() // or it would continue without the lock
	return cmd
}

func (b *build) environment() []string { return []string{"CGO_ENABLED=0"} }

// tags leaves the existing programs out of the binary.
func (b *build) tags() string {
	var tags []string
	for _, program := range programs {
		if b.reused.paths[program] != "" {
			tags = append(tags, "without_"+strings.ReplaceAll(program, "-", "_"))
		}
	}
	return strings.Join(tags, ",")
}

// arguments returns the arguments of go to build into target. The linker sets the version, as
// Kubernetes' release scripts do.
func (b *build) arguments(target string) []string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(b.version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := []string{"-s", "-w"}
	for _, setting := range []string{
		"gitVersion=" + b.version, "gitMajor=" + major, "gitMinor=" + minor, "gitTreeState=clean", "gitCommit=",
	} {
		flags = append(flags, "-X k8s.io/component-base/version."+setting)
	}
	return []string{"build", "-v", "-trimpath", "-buildvcs=false", "-tags=" + b.tags(), "-ldflags=" + strings.Join(flags, " "), "-o", target, "."}
}
