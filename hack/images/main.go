// Command images builds the container images of our programs without Docker, each as a tar that
// 'docker load', 'ctr images import' and 'kind load image-archive' take.
//
// An image is one static binary and the user that runs it, and nothing else: no shell, no
// package, no libc. The same sources and the same Go give the same digest on every machine.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
)

// images are all images that we build. To have another one, add a line.
var images = []image{
	{name: "budget", module: ".", program: "./examples/budget"},
	{name: "hello", module: ".", program: "./test/e2e/hello"},
	{name: "pause", module: "hack", program: "./pause"},
	{name: "plain", module: ".", program: "./examples/plain"},
	{name: "sharder", module: ".", program: "./cmd/sharder"},
}

func main() {
	var b builder
	output := flag.String("o", "bin/images", "the `folder` for the tars, one <name>.tar for each image")
	flag.StringVar(&b.root, "C", ".", "the `folder` of the repository")
	flag.StringVar(&b.registry, "registry", "docker.io/ringmaster", "what the images' names start with")
	flag.StringVar(&b.tag, "tag", "dev", "the images' tag")
	flag.StringVar(&b.arch, "arch", runtime.GOARCH, "the processor `architecture` to build for, as GOARCH")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: images [FLAG...] [NAME...]\n\nBuilds the named images, or all of %s.\n\n", names(images))
		flag.PrintDefaults()
	}
	flag.Parse()
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
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tDIGEST\tSIZE\tFILE")
	for _, i := range selected {
		file := filepath.Join(output, i.name+".tar")
		built, err := b.build(i, file)
		if err != nil {
			return fmt.Errorf("building the image %s: %w", i.name, err)
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f MB\t%s\n", built.reference, built.digest, float64(built.size)/1e6, file)
	}
	return table.Flush()
}
