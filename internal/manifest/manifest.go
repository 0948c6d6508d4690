// Package manifest reads objects from YAML files and applies them.
//
// It promises that applying is idempotent, and that it takes over fields that other clients have
// changed.
package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read returns the objects in a file, or in all YAML files below a folder, in the order of the
// files' names. It skips kustomizations, and returns the items of lists.
func Read(files fs.FS, root string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := fs.WalkDir(files, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		found, err := Decode(content)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		objects = append(objects, found...)
		return nil
	})
	return objects, err
}

// Decode returns the objects in the content of a file.
func Decode(content []byte) ([]*unstructured.Unstructured, error) {
	const buffer = 4096
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), buffer)
	for {
		document := map[string]any{}
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, objectsIn(&unstructured.Unstructured{Object: document})...)
	}
}

// objectsIn returns the object, the items of a list, or nothing for a kustomization.
func objectsIn(object *unstructured.Unstructured) (objects []*unstructured.Unstructured) {
	switch {
	case object.GetKind() == "" || strings.HasPrefix(object.GetAPIVersion(), "kustomize.config.k8s.io/"):
	case object.IsList():
		_ = object.EachListItem(func(item runtime.Object) error {
			objects = append(objects, objectsIn(item.(*unstructured.Unstructured))...)
			return nil
		})
	default:
		objects = append(objects, object)
	}
	return objects
}

// Apply applies the objects in order. It needs no precondition, because the owner declares its fields
// regardless of their previous values.
func Apply(ctx context.Context, writer client.Client, owner string, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		apply := client.ApplyConfigurationFromUnstructured(object)
		if err := writer.Apply(ctx, apply, client.FieldOwner(owner), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
