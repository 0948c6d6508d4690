package app

import (
	"net/http"
	"net/http/pprof"
	"runtime"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
)

// profiles returns the profiling handlers, which the metrics server serves with the same authorization:
// a profile can expose confidential data. It returns nil if profiling is disabled.
func profiles(config *configv1alpha1.SharderConfig) map[string]http.Handler {
	if !*config.Debugging.EnableProfiling {
		return nil
	}
	if *config.Debugging.EnableContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index), // and all profiles below it
		"/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}
