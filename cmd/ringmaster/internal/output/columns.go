package output

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
)

// columns are the columns of the format custom-columns.
type columns []column

type column struct {
	header string
	path   *jsonpath.JSONPath
}

// noValue is printed for a field that does not exist, as by kubectl.
const noValue = "<none>"

// parseColumns parses HEADER:PATH[,HEADER:PATH...].
func parseColumns(definition string) (columns, error) {
	var all columns
	for text := range strings.SplitSeq(definition, ",") {
		header, path, _ := strings.Cut(text, ":")
		if header == "" || path == "" {
			return nil, fmt.Errorf("invalid custom-columns %q: use HEADER:PATH[,HEADER:PATH...], such as RING:.name,READY:.ready.status", definition)
		}
		if !strings.HasPrefix(path, "{") {
			path = "{." + strings.TrimPrefix(path, ".") + "}"
		}
		parsed := jsonpath.New(header).AllowMissingKeys(true)
		if err := parsed.Parse(path); err != nil {
			return nil, fmt.Errorf("invalid path of the column %s in custom-columns: %w", header, err)
		}
		all = append(all, column{header, parsed})
	}
	return all, nil
}

// write writes a line for each row.
func (c columns) write(out io.Writer, rows []any, noHeaders bool) error {
	table := printers.GetNewTabWriter(out)
	cells := make([]string, len(c))
	if !noHeaders {
		for i := range c {
			cells[i] = c[i].header
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	for _, row := range rows {
		decoded, err := generic(row)
		if err != nil {
			return err
		}
		for i := range c {
			if cells[i], err = c[i].cell(decoded); err != nil {
				return err
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

func (c *column) cell(row map[string]any) (string, error) {
	found, err := c.path.FindResults(row)
	if err != nil {
		return "", fmt.Errorf("column %s: %w", c.header, err)
	}
	var values []string
	for _, results := range found {
		for _, value := range results {
			values = append(values, fmt.Sprint(value.Interface()))
		}
	}
	if len(values) == 0 {
		return noValue, nil
	}
	return strings.Join(values, ","), nil
}
