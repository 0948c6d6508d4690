// Command images builds the container images of our programs without Docker, each as a tar that
// 'docker load', 'ctr images import' and 'kind load image-archive' take.
//
// An image has one static binary and the user that runs it: no shell, package or libc. The same
// sources and the same version of Go give the same digest on every machine.
//
// The image of nginx has the distribution's binary and its libraries, also without a shell. The sample
// operator's Websites are Deployments of nginx, and the end-to-end test checks that nginx accepts the
// nginx.conf that the operator writes, which no program of ours can show.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"text/tabwriter"

	"github.com/ringmaster-project/ringmaster/hack/images/internal/debian"
)

// images are all images that we build.
var images = []image{
	{name: "budget", module: "examples", program: "./budget"},
	{name: "hello", module: ".", program: "./test/e2e/hello"},
	{name: "ingress", module: ".", program: "./test/e2e/ingress"},
	{name: "nginx", packaged: nginx},
	{name: "pause", module: "hack", program: "./pause"},
	{name: "plain", module: "examples", program: "./plain"},
	{name: "sharder", module: ".", program: "./cmd/sharder"},
	{name: "webhosting", module: "examples", program: "./webhosting"},
}

func main() {
	var b builder
	output := flag.String("o", "bin/images", "`folder` for the tars, one <name>.tar for each image")
	flag.StringVar(&b.root, "C", ".", "`folder` of the repository")
	flag.StringVar(&b.registry, "registry", "docker.io/ringmaster", "prefix of the images' names")
	flag.StringVar(&b.tag, "tag", "dev", "tag of the images")
	flag.StringVar(&b.arch, "arch", runtime.GOARCH, "processor `architecture` to build for, as GOARCH")
	flag.StringVar(&b.packages, "packages", "", "`folder` with the distribution's packages (default: bin/debian of the repository)")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: images [FLAG...] [NAME...]\n\nBuilds the named images, or all of %s.\n\n", names(images))
		flag.PrintDefaults()
	}
	flag.Parse()
	b.packages = cmp.Or(b.packages, filepath.Join(b.root, "bin", "debian"))
	if err := run(b, *output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(b builder, output string, wanted []string) error {
	selected, err := choose(images, wanted)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(output, 0o750); err != nil {
		return err
	}
	results, errs := make([]builtImage, len(selected)), make([]error, len(selected))
	file := func(i image) string { return filepath.Join(output, i.name+".tar") }
	// The linker uses one core.
	var group sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	for n, i := range selected {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			results[n], errs[n] = b.build(i, file(i))
		})
	}
	group.Wait()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tDIGEST\tSIZE\tFILE")
	for n, i := range selected {
		if err := errs[n]; errors.Is(err, debian.ErrUnavailable) && len(wanted) == 0 {
			// Only make e2e needs it, and other systems than Debian cannot build it.
			fmt.Fprintf(os.Stderr, "images: leaving out %s, and tests of 'make e2e' that need it will fail: %v\n", i.name, err)
			continue
		} else if err != nil {
			return fmt.Errorf("building the image %s: %w", i.name, err)
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f MB\t%s\n", results[n].reference, results[n].digest, float64(results[n].size)/1e6, file(i))
	}
	return table.Flush()
}
