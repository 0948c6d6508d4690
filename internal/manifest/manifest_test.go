package manifest_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/internal/manifest"
)

func TestRead(t *testing.T) {
	files := fstest.MapFS{}
	for name, content := range map[string]string{
		"all/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
		"all/nameless.yaml":      "resources: [a.yaml]\n",
		"all/README.md":          "kind: of text",
		"all/b.yaml":             "---\n---\nkind: Role\napiVersion: v1\nmetadata: {name: one}\n---\nkind: Role\napiVersion: v1\nmetadata: {name: two}\n",
		"all/below/a.yaml":       "kind: List\napiVersion: v1\nitems:\n- kind: Role\n  apiVersion: v1\n  metadata: {name: listed}\n",
		"broken/a.yaml":          "kind: [",
	} {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	for name, test := range map[string]struct {
		root string
		want []string
		err  string
	}{
		"a folder, in order":  {"all", []string{"one", "two", "listed"}, ""},
		"a file":              {"all/below/a.yaml", []string{"listed"}, ""},
		"a file that is none": {"broken", nil, "broken/a.yaml"},
		"a missing folder":    {"missing", nil, fs.ErrNotExist.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := manifest.Read(files, test.root)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got %v, want %q", err, test.err)
			}
			var names []string
			for _, object := range objects {
				names = append(names, object.GetName())
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := manifest.Read(files, "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
