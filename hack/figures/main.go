// Command figures compares the ratios that benchmarks report with the accepted ones, and fails if one is worse by more than its
// tolerance. It reads the output of `go test -bench` from its standard input.
//
// It compares only ratios, each to a reference of the same run, because seconds depend on the machine.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

func main() {
	path := flag.String("accepted", "", "file with the accepted ratios")
	update := flag.Bool("accept", false, "accept the measured ratios")
	flag.Parse()
	if err := gate(*path, *update, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

const header = `# Ratios that 'make bench' measures, and by how much each may be worse before it fails. 'make bench-accept' writes the ratios of the
# last 'make bench'; tolerances are set by hand. See CONTRIBUTING.md.
`

func gate(path string, update bool, in io.Reader, out io.Writer) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all []accepted
	if err := yaml.UnmarshalStrict(content, &all); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	output, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	measured, err := parse(string(output))
	if err != nil {
		return err
	}
	results := compare(all, measured)
	show(out, results)
	if update {
		content, err := yaml.Marshal(accept(all, measured, machineOf(string(output), runtime.NumCPU())))
		if err != nil {
			return err
		}
		return os.WriteFile(path, append([]byte(header), content...), 0o644)
	}
	return judge(results, out)
}

func show(out io.Writer, results []result) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nBENCHMARK\tRATIO\tACCEPTED\tLIMIT\tMEASURED\tVERDICT")
	for _, r := range results {
		measured := "-"
		if r.verdict != omitted && r.verdict != missing {
			measured = fmt.Sprintf("%.3f", r.Value)
		}
		fmt.Fprintf(table, "%s\t%s\t%.3f\t%.3f\t%s\t%s\n", r.Benchmark, r.Unit, r.Ratio, r.Limit, measured, r.verdict)
	}
	_ = table.Flush()
}

// judge returns an error if a ratio is worse, or was not measured although all should be.
func judge(results []result, out io.Writer) error {
	count := map[verdict]int{}
	for _, r := range results {
		count[r.verdict]++
	}
	if n := count[better] + count[unknown]; n > 0 {
		fmt.Fprintf(out, "\n%d ratios are better than accepted, or new: run 'make bench-accept' and commit the change.\n", n)
	}
	if n := count[worse] + count[missing]; n > 0 {
		return fmt.Errorf("%d ratios are worse than their tolerance allows, or were not measured: "+
			"repeat the run on an idle machine; if they are still worse, find the cause, or accept them with 'make bench-accept' and explain why in the commit", n)
	}
	return nil
}
