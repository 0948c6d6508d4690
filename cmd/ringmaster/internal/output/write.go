package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Document is the output of a command for programs.
type Document struct {
	// Root is printed as JSON and YAML, and passed to templates.
	Root any
	// Rows are the lines of custom-columns.
	Rows []any
	// Names are the lines of the format name.
	Names []string
}

// Write writes a document in any format that is not a table.
func (f Format) Write(out io.Writer, document Document, noHeaders bool) error {
	switch f {
	case JSON:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(document.Root)
	case YAML:
		content, err := yaml.Marshal(document.Root)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	case Name:
		for _, name := range document.Names {
			if _, err := fmt.Fprintln(out, name); err != nil {
				return err
			}
		}
		return nil
	case Table, Wide:
		return fmt.Errorf("a document cannot be written as a %s", f)
	}
	if definition, ok := strings.CutPrefix(string(f), columnsPrefix); ok {
		columns, err := parseColumns(definition)
		if err != nil {
			return err
		}
		return columns.write(out, document.Rows, noHeaders)
	}
	printer, err := f.printer()
	if err != nil {
		return err
	}
	content, err := generic(document.Root)
	if err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, out)
}

// generic returns a value as its JSON decodes, with the names of fields that programs use. Whole numbers stay whole: Go
// prints large floats with an exponent.
func generic(value any) (map[string]any, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	decoded := map[string]any{}
	err = utiljson.Unmarshal(content, &decoded)
	return decoded, err
}
