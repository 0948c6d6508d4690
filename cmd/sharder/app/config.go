package app

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
)

// readConfig reads the configuration file, or returns the defaults if there is none. A field that
// does not exist is an error: a misspelt one would otherwise silently do nothing.
func readConfig(scheme *runtime.Scheme, path string) (*configv1alpha1.SharderConfig, error) {
	config := &configv1alpha1.SharderConfig{}
	if path == "" {
		configv1alpha1.SetDefaults(config)
		return config, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(configv1alpha1.SchemeGroupVersion)
	if err := runtime.DecodeInto(decoder, content, config); err != nil {
		return nil, fmt.Errorf("reading the configuration %s (a SharderConfig of %s): %w", path, configv1alpha1.SchemeGroupVersion, err)
	}
	if err := validate(config); err != nil {
		return nil, fmt.Errorf("the configuration %s cannot be used: %w", path, err)
	}
	return config, nil
}

func validate(config *configv1alpha1.SharderConfig) error {
	var errs []error
	sharder := field.NewPath("controller", "sharder")
	if *config.Controller.Sharder.ConcurrentMoves < 1 {
		errs = append(errs, field.Invalid(sharder.Child("concurrentMoves"), *config.Controller.Sharder.ConcurrentMoves, "must be at least 1"))
	}
	if config.Controller.Sharder.SyncPeriod.Duration <= 0 {
		errs = append(errs, field.Invalid(sharder.Child("syncPeriod"), config.Controller.Sharder.SyncPeriod.Duration.String(), "must be longer than nothing"))
	}
	client := config.Webhook.Config.ClientConfig
	if (client.URL == nil) == (client.Service == nil) {
		errs = append(errs, field.Invalid(field.NewPath("webhook", "config", "clientConfig"), "", "must have either a url or a service"))
	}
	return errors.Join(errs...)
}
