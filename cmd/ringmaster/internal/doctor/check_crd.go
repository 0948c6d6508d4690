package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

func evaluateServer(f *Facts) *Check {
	c := &Check{Name: checkServer}
	if !f.Version.known() {
		c.unreadable("version of the API server", f.Version.Err)
		return c
	}
	if err := kubeversion.Check(f.Version.Value); err != nil {
		c.add(Finding{
			Reason: ServerTooOld, Status: Failure, Object: "API server",
			Cause: fmt.Sprintf("Kubernetes %s is older than %s, the oldest supported version", f.Version.Value.GitVersion, kubeversion.Minimum),
			Next:  "upgrade the control plane to Kubernetes " + kubeversion.Minimum + " or newer",
		})
	}
	return c.message("Kubernetes %s", f.Version.Value.GitVersion)
}

// crdName is the name of the CustomResourceDefinition of ControllerRing.
const crdName = "controllerrings.sharding.timebertt.dev"

const applyCRD = "kubectl apply --server-side -f config/crds/sharding.timebertt.dev_controllerrings.yaml"

func evaluateCRD(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkCRD}
	fail := func(reason Reason, status Status, cause, next string) {
		c.add(Finding{Reason: reason, Status: status, Object: "CustomResourceDefinition/" + crdName, Cause: cause, Next: next})
	}
	if !f.CRD.known() {
		c.unreadable("CustomResourceDefinition/"+crdName, f.CRD.Err)
		return c
	}
	if f.CRD.Value == nil {
		if slices.ContainsFunc(rings, (*ring).inProcess) {
			return c.message("not installed, which rings with an in-process sharder do not need")
		}
		fail(CRDMissing, Failure, "not found: nobody can create a ControllerRing", applyCRD)
		return c
	}
	if why := notEstablished(f.CRD.Value); why != "" {
		fail(CRDNotEstablished, Failure, "not established, so the API server does not serve ControllerRings: "+why,
			"kubectl describe crd "+crdName+", then remove what conflicts")
	}
	installed := versionOf(f.CRD.Value)
	if served, _, _ := unstructured.NestedBool(installed, "served"); !served {
		fail(CRDVersionNotServed, Failure, "the version "+shardingv1alpha1.SchemeGroupVersion.Version+" is not served, so nothing can read ControllerRings", applyCRD)
	}
	missing, unknown := compareSchemas(schemaOf(f.EmbeddedCRD), schemaOf(f.CRD.Value))
	if len(missing) > 0 && installed != nil {
		fail(CRDOutdated, Failure, "the schema lacks "+prose.List(missing)+": the API server drops these fields without an error", applyCRD)
	}
	if len(unknown) > 0 {
		fail(CRDNewer, Warning, "the schema has fields that this version of ringmaster does not know: "+prose.List(unknown),
			"use this program in the version of the sharder")
	}
	return c.message("established, %s is served, and the schema matches", shardingv1alpha1.SchemeGroupVersion.Version)
}

// notEstablished returns why the API server does not serve a definition, or "".
func notEstablished(crd map[string]any) string {
	conditions, _, _ := unstructured.NestedSlice(crd, "status", "conditions")
	established, reasons := false, []string{}
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		switch {
		case condition["type"] == "Established" && condition["status"] == "True":
			established = true
		case condition["status"] == "False":
			reasons = append(reasons, fmt.Sprintf("%v: %v", condition["reason"], condition["message"]))
		}
	}
	switch {
	case established:
		return ""
	case len(reasons) == 0:
		return "the API server has not processed it"
	}
	return strings.Join(reasons, "; ")
}

// versionOf returns the version of a definition that this program uses, or nil.
func versionOf(crd map[string]any) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	for _, item := range versions {
		if version, ok := item.(map[string]any); ok && version["name"] == shardingv1alpha1.SchemeGroupVersion.Version {
			return version
		}
	}
	return nil
}

func schemaOf(crd map[string]any) map[string]any {
	schema, _, _ := unstructured.NestedMap(versionOf(crd), "schema", "openAPIV3Schema")
	return schema
}

// compareSchemas returns the paths of the fields that only one of two schemas has, without the fields
// below them.
func compareSchemas(expected, installed map[string]any) (missing, unknown []string) {
	missing, unknown = fieldsBeyond(expected, installed, ""), fieldsBeyond(installed, expected, "")
	slices.Sort(missing)
	slices.Sort(unknown)
	return missing, unknown
}

// fieldsBeyond returns the paths of the fields of one schema that another one does not have.
func fieldsBeyond(one, other map[string]any, path string) (beyond []string) {
	fields, _, _ := unstructured.NestedMap(one, "properties")
	others, _, _ := unstructured.NestedMap(other, "properties")
	for name, field := range fields {
		below, _ := field.(map[string]any)
		known, found := others[name].(map[string]any)
		if !found {
			beyond = append(beyond, strings.TrimPrefix(path+"."+name, "."))
			continue
		}
		beyond = append(beyond, fieldsBeyond(below, known, path+"."+name)...)
	}
	items, isList, _ := unstructured.NestedMap(one, "items")
	if isList {
		others, _, _ := unstructured.NestedMap(other, "items")
		beyond = append(beyond, fieldsBeyond(items, others, path+"[]")...)
	}
	return beyond
}
