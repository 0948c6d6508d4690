// Package output writes the output of commands for programs, in the formats of kubectl.
//
// It guarantees that all commands take the same values for --output, and that each value is checked before the
// command reads anything.
package output

import (
	"fmt"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// Format is the value of the flag --output.
type Format string

// The formats without an argument.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// columnsPrefix begins the format custom-columns. cli-runtime does not have it.
const columnsPrefix = "custom-columns="

// Usage is the description of the flag --output.
const Usage = "`FORMAT` of the output: table, wide, json, yaml, name, jsonpath=…, go-template=… or custom-columns=…, as for kubectl"

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *Format) Set(value string) error {
	format := Format(value)
	switch format {
	case Table, Wide, JSON, YAML, Name:
		*f = format
		return nil
	}
	if columns, ok := strings.CutPrefix(value, columnsPrefix); ok {
		if _, err := parseColumns(columns); err != nil {
			return err
		}
	} else if _, err := format.printer(); err != nil {
		return err
	}
	*f = format
	return nil
}

// IsTable reports whether the format is for people: a table, or a wide one.
func (f Format) IsTable() bool { return f == Table || f == Wide || f == "" }

// printer returns the printer of a format with a template.
func (f Format) printer() (printers.ResourcePrinter, error) {
	kind, _, _ := strings.Cut(string(f), "=")
	printer, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(string(f))
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("unknown format %q: use %s, %s, %s, %s, %s, jsonpath=…, go-template=… or %s…", kind, Table, Wide, JSON, YAML, Name, columnsPrefix)
	}
	if err != nil {
		return nil, fmt.Errorf("invalid %s: %w", kind, err)
	}
	return printer, nil
}
