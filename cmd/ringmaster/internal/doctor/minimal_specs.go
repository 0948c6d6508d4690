package doctor

import "k8s.io/apimachinery/pkg/runtime/schema"

// minimalSpecs are specs that API servers accept, of common resources. It is nil for objects without a spec.
var minimalSpecs = map[schema.GroupResource]map[string]any{
	{Resource: "configmaps"}:                  nil,
	{Resource: "secrets"}:                     nil,
	{Resource: "serviceaccounts"}:             nil,
	{Resource: "pods"}:                        podSpec("Always"),
	{Resource: "services"}:                    {"ports": []any{map[string]any{"port": int64(80)}}},
	{Group: "apps", Resource: "deployments"}:  workloadSpec(),
	{Group: "apps", Resource: "replicasets"}:  workloadSpec(),
	{Group: "apps", Resource: "daemonsets"}:   workloadSpec(),
	{Group: "apps", Resource: "statefulsets"}: workloadSpec(),
	{Group: "batch", Resource: "jobs"}:        jobSpec(),
	{Group: "batch", Resource: "cronjobs"}:    {"schedule": "@yearly", "jobTemplate": map[string]any{"spec": jobSpec()}},
}

func podSpec(restartPolicy string) map[string]any {
	return map[string]any{
		"restartPolicy": restartPolicy,
		"containers":    []any{map[string]any{"name": "probe", "image": "probe"}},
	}
}

func workloadSpec() map[string]any {
	labels := map[string]any{"app": "ringmaster-doctor"}
	return map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": podSpec("Always")},
	}
}

func jobSpec() map[string]any {
	return map[string]any{"template": map[string]any{"spec": podSpec("Never")}}
}

// The likelihoods with which an API server accepts a probe object, ascending. Admission may refuse pods and what
// creates pods, so objects without a spec are preferred.
const (
	validityUnknown = iota
	validWithSpec
	validWithoutSpec
)

func validityOf(resource schema.GroupResource) int {
	switch spec, known := minimalSpecs[resource]; {
	case !known:
		return validityUnknown
	case spec != nil:
		return validWithSpec
	}
	return validWithoutSpec
}
