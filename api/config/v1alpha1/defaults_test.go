package v1alpha1_test

import (
	"testing"
	"time"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
)

// TestDefaults pins down what users get without a configuration file.
func TestDefaults(t *testing.T) {
	config := &configv1alpha1.SharderConfig{}
	configv1alpha1.SetDefaults(config)
	for name, ok := range map[string]bool{
		"health":          config.Health.BindAddress == ":8081",
		"metrics":         config.Metrics.BindAddress == ":8080",
		"syncPeriod":      config.Controller.Sharder.SyncPeriod.Duration == 5*time.Minute,
		"concurrentMoves": *config.Controller.Sharder.ConcurrentMoves == 100,
		"shutdown":        config.GracefulShutDown.Duration == 15*time.Second,
		"election":        *config.LeaderElection.LeaderElect && config.LeaderElection.ResourceNamespace == "sharding-system",
		"service":         config.Webhook.Config.ClientConfig.Service.Name == "sharder",
		"profiling":       !*config.Debugging.EnableProfiling,
	} {
		if !ok {
			t.Errorf("unexpected default of %s", name)
		}
	}
	before := config.DeepCopy()
	*config.Controller.Sharder.ConcurrentMoves = 7
	config.Metrics.BindAddress = "0"
	configv1alpha1.SetDefaults(config)
	if *config.Controller.Sharder.ConcurrentMoves != 7 || config.Metrics.BindAddress != "0" || *before.Controller.Sharder.ConcurrentMoves != 100 {
		t.Error("values that were set are overwritten")
	}
}
