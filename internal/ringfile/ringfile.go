// Package ringfile reads ControllerRings from files with one or more objects in YAML or JSON.
package ringfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Find returns the ring of the name, or the only one if the name is empty.
func Find(content io.Reader, name string) (*shardingv1alpha1.ControllerRing, error) {
	rings, err := read(content)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, ring := range rings {
		names = append(names, ring.Name)
	}
	i := slices.Index(names, name)
	switch {
	case len(rings) == 0:
		return nil, fmt.Errorf("no ControllerRing of %s found", shardingv1alpha1.SchemeGroupVersion)
	case i >= 0:
		return rings[i], nil
	case name != "":
		return nil, fmt.Errorf("ControllerRing %q not found (available: %s)", name, strings.Join(names, ", "))
	case len(rings) > 1:
		return nil, fmt.Errorf("found %d ControllerRings: name one of %s", len(names), strings.Join(names, ", "))
	}
	return rings[0], nil
}

// read reads all rings. An unknown field is an error: a misspelt field would otherwise be ignored
// silently.
func read(content io.Reader) ([]*shardingv1alpha1.ControllerRing, error) {
	scheme := runtime.NewScheme()
	if err := shardingv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var rings []*shardingv1alpha1.ControllerRing
	const buffer = 4096
	for documents := yaml.NewYAMLOrJSONDecoder(content, buffer); ; {
		document := runtime.RawExtension{}
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return rings, nil
		} else if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document.Raw)) == 0 {
			continue // an empty document
		}
		object, _, err := decoder.Decode(document.Raw, nil, nil)
		if runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) {
			continue // another kind
		}
		if err != nil {
			return nil, err
		}
		if ring, ok := object.(*shardingv1alpha1.ControllerRing); ok {
			rings = append(rings, ring)
		}
	}
}
