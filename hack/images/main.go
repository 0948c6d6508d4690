// Command images builds the container images of our programs without Docker, each as a tar that
// 'docker load', 'ctr images import' and 'kind load image-archive' take.
//
// An image is one static binary and the user that runs it, and nothing else: no shell, no
// package, no libc. The same sources and the same Go give the same digest on every machine.
//
// nginx is the exception. It is the distribution's, with the libraries that it needs and without a
// shell too; the same packages give the same digest.
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

// images are all images that we build. To have another one, add a line.
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
	output := flag.String("o", "bin/images", "the `folder` for the tars, one <name>.tar for each image")
	flag.StringVar(&b.root, "C", ".", "the `folder` of the repository")
	flag.StringVar(&b.registry, "registry", "docker.io/ringmaster", "what the images' names start with")
	flag.StringVar(&b.tag, "tag", "dev", "the images' tag")
	flag.StringVar(&b.arch, "arch", runtime.GOARCH, "the processor `architecture` to build for, as GOARCH")
	flag.StringVar(&b.packages, "packages", "", "the `folder` that keeps the distribution's packages (default: bin/debian of the repository)")
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
	results, errs := make([]built, len(selected)), make([]error, len(selected))
	file := func(i image) string { return filepath.Join(output, i.name+".tar") }
	// Each program is linked by one core.
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
			// Who needs it finds out soon enough; the others need not have a Debian.
			fmt.Fprintf(os.Stderr, "images: %s is left out, and what needs it in 'make e2e' fails: %v\n", i.name, err)
			continue
		} else if err != nil {
			return fmt.Errorf("building the image %s: %w", i.name, err)
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f MB\t%s\n", results[n].reference, results[n].digest, float64(results[n].size)/1e6, file(i))
	}
	return table.Flush()
}
