package output_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/output"
)

type row struct {
	Name   string         `json:"name"`
	Counts map[string]int `json:"counts,omitempty"`
}

type report struct {
	Rows []row `json:"rows"`
}

func TestFormats(t *testing.T) {
	rows := []row{{"one", map[string]int{"apples": 3}}, {"second", nil}}
	document := output.Document{Root: report{rows}, Rows: []any{rows[0], rows[1]}, Names: []string{"fruit/one", "fruit/second"}}
	for format, want := range map[string]string{
		"json":                      "{\n  \"rows\": [\n    {\n      \"name\": \"one\",\n      \"counts\": {\n        \"apples\": 3\n      }\n    },\n    {\n      \"name\": \"second\"\n    }\n  ]\n}\n",
		"yaml":                      "rows:\n- counts:\n    apples: 3\n  name: one\n- name: second\n",
		"name":                      "fruit/one\nfruit/second\n",
		"jsonpath={.rows[*].name}":  "one second",
		"go-template={{len .rows}}": "2",
		"custom-columns=N:.name,A:.counts.apples":  "N        A\none      3\nsecond   <none>\n",
		"custom-columns=N:{.name},A:counts.apples": "N        A\none      3\nsecond   <none>\n",
	} {
		t.Run(format, func(t *testing.T) {
			var parsed output.Format
			if err := parsed.Set(format); err != nil {
				t.Fatal(err)
			}
			if parsed.IsTable() {
				t.Error("it is a table")
			}
			var text strings.Builder
			if err := parsed.Write(&text, document, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
	var text strings.Builder
	if err := output.Format("custom-columns=N:.name").Write(&text, document, true); err != nil || text.String() != "one\nsecond\n" {
		t.Errorf("without headers: %q, %v", text.String(), err)
	}
}

// TestLargeNumbers has a number that Go prints with an exponent if it is decoded as a float.
func TestLargeNumbers(t *testing.T) {
	large := row{"large", map[string]int{"apples": 12345678}}
	document := output.Document{Root: report{[]row{large}}, Rows: []any{large}}
	for format, want := range map[output.Format]string{
		"custom-columns=A:.counts.apples":                      "A\n12345678\n",
		"jsonpath={.rows[0].counts.apples}":                    "12345678",
		"jsonpath={.rows[?(@.counts.apples>12345677)].name}":   "large",
		"go-template={{range .rows}}{{.counts.apples}}{{end}}": "12345678",
	} {
		var text strings.Builder
		if err := format.Write(&text, document, false); err != nil || text.String() != want {
			t.Errorf("%s: %q, want %q (%v)", format, text.String(), want, err)
		}
	}
}

func TestInvalidFormats(t *testing.T) {
	for value, want := range map[string]string{
		"xml":                   `unknown format "xml": use table, wide, json, yaml, name, jsonpath=…, go-template=… or custom-columns=…`,
		"jsonpath":              "invalid jsonpath: ",
		"jsonpath={.a":          "invalid jsonpath: ",
		"go-template={{":        "invalid go-template: ",
		"custom-columns=":       "use HEADER:PATH",
		"custom-columns=A":      "use HEADER:PATH",
		"custom-columns=A:{.a[": "invalid path of the column A",
	} {
		format := output.Table
		if err := format.Set(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
		if format != output.Table {
			t.Errorf("%s was set", value)
		}
	}
}
