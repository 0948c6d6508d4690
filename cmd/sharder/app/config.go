package app

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
)

// readConfig reads the configuration file, or returns the defaults without one. An unknown field is
// an error: a misspelt one would otherwise be ignored silently.
func readConfig(scheme *runtime.Scheme, path string) (*configv1alpha1.SharderConfig, error) {
	config := &configv1alpha1.SharderConfig{}
	if path == "" {
		configv1alpha1.SetDefaults(config)
		return config, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration file in --config: %w", err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(configv1alpha1.SchemeGroupVersion)
	if err := runtime.DecodeInto(decoder, content, config); err != nil {
		return nil, fmt.Errorf("configuration %s is not a SharderConfig of %s (docs/reference/configuration.md lists all fields; durations look like 30s or 5m): %w",
			path, configv1alpha1.SchemeGroupVersion, err)
	}
	if errs := validate(config); len(errs) > 0 {
		return nil, fmt.Errorf("configuration %s is invalid: %w", path, errs.ToAggregate())
	}
	return config, nil
}
