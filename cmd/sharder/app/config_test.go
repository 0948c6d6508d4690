package app

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder"
)

// read reads a configuration from a file.
func read(t *testing.T, content string) (string, error) {
	t.Helper()
	scheme, err := sharder.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = readConfig(scheme, path)
	return path, err
}

const header = "apiVersion: config.sharding.timebertt.dev/v1alpha1\nkind: SharderConfig\n"

// isNot is part of the error for every file that cannot be decoded.
const isNot = "is not a SharderConfig of config.sharding.timebertt.dev/v1alpha1"

// TestInvalidConfigurations checks that errors name the field, the cause and the fix.
func TestInvalidConfigurations(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"no YAML":                {"{", []string{isNot}},
		"wrong kind":             {strings.ReplaceAll(header, "SharderConfig", "ShardConfig"), []string{`"ShardConfig"`, isNot}},
		"wrong version":          {strings.ReplaceAll(header, "v1alpha1", "v1"), []string{isNot}},
		"kind of something else": {"apiVersion: sharding.timebertt.dev/v1alpha1\nkind: ControllerRing\n", []string{isNot}},
		"unknown field":          {header + "contoller: {}", []string{`unknown field "contoller"`, isNot, "docs/reference/configuration.md"}},
		"unknown nested field":   {header + "controller: {sharder: {syncPeriods: 5m}}", []string{`"controller.sharder.syncPeriods"`}},
		"field twice":            {header + "health: {}\nhealth: {}", []string{`"health" already set`, "line 4"}},
		"bad duration":           {header + "controller: {sharder: {syncPeriod: 5 minutes}}", []string{"5 minutes", "look like 30s or 5m"}},
		"duration as a number":   {header + "gracefulShutDown: 15", []string{"gracefulShutDown", "look like 30s or 5m"}},
		"text for a number":      {header + "controller: {sharder: {concurrentMoves: many}}", []string{"concurrentMoves"}},

		"no moves":              {header + "controller: {sharder: {concurrentMoves: 0}}", []string{"controller.sharder.concurrentMoves", "at least 1"}},
		"negative moves":        {header + "controller: {sharder: {concurrentMoves: -1}}", []string{"controller.sharder.concurrentMoves", "at least 1"}},
		"no period":             {header + "controller: {sharder: {syncPeriod: 0s}}", []string{"controller.sharder.syncPeriod", "such as 5m"}},
		"negative period":       {header + "controller: {sharder: {syncPeriod: -5m}}", []string{"controller.sharder.syncPeriod", "-5m"}},
		"negative shutdown":     {header + "gracefulShutDown: -1s", []string{"gracefulShutDown", "must not be negative"}},
		"bad health address":    {header + "health: {bindAddress: here}", []string{"health.bindAddress", "host:port"}},
		"bad metrics port":      {header + `metrics: {bindAddress: ":80800"}`, []string{"metrics.bindAddress", "host:port"}},
		"profiling, no metrics": {header + "metrics: {bindAddress: '0'}\ndebugging: {enableProfiling: true}", []string{"debugging.enableProfiling", "metrics.bindAddress"}},
		"wrong lock":            {header + "leaderElection: {resourceLock: configmaps}", []string{"leaderElection.resourceLock", `"leases"`}},
		"short lease":           {header + "leaderElection: {leaseDuration: 5s}", []string{"leaderElection.leaseDuration", "longer than the renewDeadline"}},
		"broken lease":          {header + "leaderElection: {leaseDuration: 10500ms}", []string{"leaderElection.leaseDuration", "whole seconds"}},
		"short deadline":        {header + "leaderElection: {renewDeadline: 2s}", []string{"leaderElection.renewDeadline", "1.2 times"}},
		"negative retry":        {header + "leaderElection: {retryPeriod: -1s}", []string{"leaderElection.retryPeriod"}},
		"bad selector":          {header + "webhook: {config: {namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}}", []string{"webhook.config.namespaceSelector", "Near"}},
		"URL without https":     {header + "webhook: {config: {clientConfig: {url: 'http://sharder:9443'}}}", []string{"webhook.config.clientConfig.url", "must begin with https://"}},
		"URL without scheme":    {header + "webhook: {config: {clientConfig: {url: 'sharder/'}}}", []string{"must begin with https://"}},
		"URL without host":      {header + "webhook: {config: {clientConfig: {url: 'https:///'}}}", []string{"must name a host"}},
		"URL with query":        {header + "webhook: {config: {clientConfig: {url: 'https://sharder?a=b'}}}", []string{"no user, query or fragment"}},
		"URL and service":       {header + "webhook: {config: {clientConfig: {url: 'https://sharder', service: {name: a, namespace: b}}}}", []string{"either a url or a service"}},
		"neither":               {header + "webhook: {config: {clientConfig: {caBundle: ''}}}", []string{"either a url or a service"}},
		"service without name":  {header + "webhook: {config: {clientConfig: {service: {namespace: b}}}}", []string{"webhook.config.clientConfig.service", "a namespace and a name"}},
		"service with path":     {header + "webhook: {config: {clientConfig: {service: {name: a, namespace: b, path: /c}}}}", []string{"webhook.config.clientConfig.service.path"}},
		"service with bad port": {header + "webhook: {config: {clientConfig: {service: {name: a, namespace: b, port: 0}}}}", []string{"webhook.config.clientConfig.service.port"}},
		"bad bundle":            {header + "webhook: {config: {clientConfig: {url: 'https://sharder', caBundle: YWJj}}}", []string{"webhook.config.clientConfig.caBundle", "PEM"}},
		"two mistakes": {header + "gracefulShutDown: -1s\ncontroller: {sharder: {concurrentMoves: 0}}", []string{
			"gracefulShutDown", "controller.sharder.concurrentMoves",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := read(t, test.content)
			if err == nil {
				t.Fatal("it was accepted")
			}
			t.Log(err)
			for _, want := range append(test.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestValidConfigurations(t *testing.T) {
	for name, content := range map[string]string{
		"empty":             header,
		"without a kind":    "",
		"no election":       header + "leaderElection: {leaderElect: false, leaseDuration: 1s}",
		"all off":           header + "health: {bindAddress: '0'}\nmetrics: {bindAddress: '0'}",
		"profiles":          header + "debugging: {enableProfiling: true, enableContentionProfiling: true}",
		"URL":               header + "webhook: {config: {clientConfig: {url: 'https://127.0.0.1:9443/'}}}",
		"service with port": header + "webhook: {config: {clientConfig: {service: {name: a, namespace: b, port: 8443}}}}",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(t, content); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFieldsAreDocumented keeps docs/reference/configuration.md complete, which errors refer to.
func TestFieldsAreDocumented(t *testing.T) {
	content, err := os.ReadFile("../../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range fields(reflect.TypeFor[configv1alpha1.SharderConfig](), "") {
		if !strings.Contains(string(content), "`"+path+"`") {
			t.Errorf("docs/reference/configuration.md does not document %s", path)
		}
	}
}

// fields returns the paths of all fields, without the fields of foreign types.
func fields(t reflect.Type, prefix string) (paths []string) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		ours := strings.Contains(inner.PkgPath(), "ringmaster") || strings.Contains(inner.PkgPath(), "component-base")
		switch {
		case name == "": // apiVersion and kind
		case inner.Kind() == reflect.Struct && ours:
			paths = append(paths, fields(inner, prefix+name+".")...)
		default:
			paths = append(paths, prefix+name)
		}
	}
	return paths
}

func TestDefaultsWithoutFile(t *testing.T) {
	config, err := readConfig(nil, "")
	if err != nil || config.Controller.Sharder.SyncPeriod.Duration != 5*time.Minute {
		t.Errorf("%v, %v", config, err)
	}
}

func TestUnreadableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := readConfig(nil, path); err == nil || !strings.Contains(err.Error(), "--config") || !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not say what to do: %v", err)
	}
}
