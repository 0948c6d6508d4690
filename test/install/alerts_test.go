package install_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ringmaster-project/ringmaster/internal/sharder/metrics"
)

// prometheusRule has the relevant fields of a PrometheusRule.
type prometheusRule struct {
	Kind       string         `json:"kind"`
	APIVersion string         `json:"apiVersion"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	for _, group := range only[prometheusRule](t, build(t, withMonitoring), "PrometheusRule").Spec.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts found")
	}
	return all
}

// targetLabels are the labels that Prometheus adds to all metrics.
var targetLabels = []string{"job", "namespace", "pod", "instance"}

// known returns the names and labels of all metrics of a sharder, and of other sources.
func known(t *testing.T) map[string][]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics.New(registry)
	registry.MustRegister(&metrics.State{}, metrics.CertificateExpiry(time.Now))
	all := map[string][]string{
		"up": nil, // of Prometheus
		"apiserver_admission_webhook_fail_open_count": {"name", "type"}, // of API servers
	}
	// Its string is, for example, fqName: "up", help: "…", constLabels: {}, variableLabels: {a,b}
	shown := regexp.MustCompile(`fqName: "([^"]+)", help: .*, variableLabels: \{([^}]*)\}`)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
		ctrlmetrics.Registry.(*prometheus.Registry).Describe(descriptions)
	}()
	for description := range descriptions {
		found := shown.FindStringSubmatch(description.String())
		if found == nil {
			continue
		}
		labels := strings.Split(found[2], ",")
		for _, suffix := range []string{"", "_count", "_sum", "_bucket"} { // histograms
			all[found[1]+suffix] = labels
		}
	}
	return all
}

// TestAlertsUseExistingMetrics catches renamed metrics, with which an alert would never fire.
func TestAlertsUseExistingMetrics(t *testing.T) {
	metrics := known(t)
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			used, grouped := parse(alert.Expr)
			if len(used) == 0 {
				t.Errorf("no metric in the expression: %s", alert.Expr)
			}
			for _, selector := range used {
				labels, exists := metrics[selector.metric]
				if !exists {
					t.Errorf("metric %s not found", selector.metric)
					continue
				}
				for _, label := range slices.Concat(selector.labels, grouped) {
					if !slices.Contains(labels, label) && !slices.Contains(targetLabels, label) {
						t.Errorf("%s has no label %s", selector.metric, label)
					}
				}
			}
			for _, text := range alert.Annotations {
				for _, found := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
					if !slices.Contains(grouped, found[1]) {
						t.Errorf("the expression drops the label %s, which %q uses", found[1], text)
					}
				}
			}
		})
	}
}

// TestAlertsNameTheNextStep for the person on call.
func TestAlertsNameTheNextStep(t *testing.T) {
	for _, alert := range alerts(t) {
		for _, needed := range []string{"summary", "description", "action"} {
			if alert.Annotations[needed] == "" {
				t.Errorf("%s has no %s", alert.Alert, needed)
			}
		}
		if severity := alert.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s has the severity %q", alert.Alert, severity)
		}
	}
}

// selector is a metric in an expression with its label matchers.
type selector struct {
	metric string
	labels []string
}

var (
	tokens = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\d\w*|[a-zA-Z_:][\w:]*|[(){}\[\]]`)
	word   = regexp.MustCompile(`^[a-zA-Z_:]`)
	// grouping words are followed by labels in parentheses.
	grouping  = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operators = []string{"and", "or", "unless", "offset", "bool"}
)

// parse returns the metrics and labels in an expression. It supports only the PromQL of the alerts.
func parse(expression string) (selectors []selector, grouped []string) {
	all := tokens.FindAllString(expression, -1)
	labels := map[string]bool{}
	for i := 0; i < len(all); i++ {
		token := all[i]
		next := ""
		if i+1 < len(all) {
			next = all[i+1]
		}
		switch {
		case token == "{":
			for i++; all[i] != "}"; i++ {
				if word.MatchString(all[i]) {
					last := &selectors[len(selectors)-1]
					last.labels = append(last.labels, all[i])
				}
			}
		case slices.Contains(grouping, token):
			for i++; all[i] != ")"; i++ {
				if word.MatchString(all[i]) {
					labels[all[i]] = true
				}
			}
		case !word.MatchString(token), slices.Contains(operators, token), next == "(", slices.Contains(grouping, next) && isAggregation(token):
		default:
			selectors = append(selectors, selector{metric: token})
		}
	}
	return selectors, slices.Sorted(maps.Keys(labels))
}

func isAggregation(token string) bool {
	return slices.Contains([]string{"sum", "min", "max", "avg", "count"}, token)
}

func TestParse(t *testing.T) {
	used, grouped := parse(`sum by (ring) (rate(calls_total{result="failed (by us)", code=~"5.."}[5m])) > 0
		unless on (ring) max by (ring, shard) (alive offset 10m) == 1 or absent(up == 1)`)
	want := []selector{{"calls_total", []string{"result", "code"}}, {"alive", nil}, {"up", nil}}
	if !slices.EqualFunc(used, want, func(a, b selector) bool { return a.metric == b.metric && slices.Equal(a.labels, b.labels) }) {
		t.Errorf("metrics %v, want %v", used, want)
	}
	if !slices.Equal(grouped, []string{"ring", "shard"}) {
		t.Errorf("grouped by %v", grouped)
	}
}
