package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/admission"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

var (
	websites   = schema.GroupVersionResource{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Resource: "websites"}
	website    = catalog.Kind{GroupKind: schema.GroupKind{Group: websites.Group, Kind: "Website"}, Namespaced: true}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	shards     = ring.New([]string{"a", "b", "c"})
)

// handler returns a Handler for a ring of websites and their ConfigMaps.
func handler(t *testing.T, drained bool, results *[]admission.Result) *admission.Handler {
	t.Helper()
	rings := &catalog.Catalog{}
	rings.Set(&catalog.Ring{Name: "ring", Drained: drained, Resources: []catalog.Resource{
		{Resource: websites, Kind: website},
		{Resource: configMaps, Kind: catalog.Kind{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespaced: true}, Controllers: []catalog.Kind{website}},
	}})
	return &admission.Handler{
		Rings:   rings,
		Members: membersOf(shards),
		Locate: func(context.Context, string, catalog.MainObject) (string, error) {
			t.Error("the controller was located needlessly")
			return "", errors.New("unexpected call")
		},
		OnResult: func(_ string, _ schema.GroupResource, result admission.Result, _ time.Duration) {
			*results = append(*results, result)
		},
		OnUnassigned: func(string, schema.GroupResource, string) {},
		Since:        func(string) time.Time { return time.Time{} },
		Now:          time.Now,
	}
}

type membersFunc func() *ring.Ring

func (f membersFunc) Ring(string) (*ring.Ring, <-chan struct{}) { return f(), nil }

func membersOf(r *ring.Ring) membersFunc { return func() *ring.Ring { return r } }

func ask(t *testing.T, h *admission.Handler, path string, resource schema.GroupVersionResource, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	return send(t, h, path, resource, object, false)
}

// send sends an object as an API server does, and returns the answer.
func send(t *testing.T, h *admission.Handler, path string, resource schema.GroupVersionResource, object string, dryRun bool) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       "42",
			Resource:  metav1.GroupVersionResource(resource),
			Namespace: "project",
			Object:    runtime.RawExtension{Raw: []byte(object)},
			DryRun:    &dryRun,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, post(path, body))
	if recorder.Code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", recorder.Code, recorder.Body)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		t.Fatal(err)
	}
	if review.Response == nil || review.Response.UID != types.UID("42") || review.Kind != "AdmissionReview" {
		t.Fatalf("not an answer to the request: %s", recorder.Body)
	}
	if !review.Response.Allowed {
		t.Error("the request was denied")
	}
	return review.Response
}

func TestNewObjectIsAssigned(t *testing.T) {
	owner := shards.Owner(catalog.MainObject{Kind: website, Namespace: "project", Name: "home"}.Key())
	const escaped = "shard.alpha.sharding.timebertt.dev~1ring"
	for name, test := range map[string]struct {
		resource schema.GroupVersionResource
		object   string
		want     string
	}{
		"a main object without labels": {
			websites, `{"metadata":{"name":"home","namespace":"project"}}`,
			`[{"op":"add","path":"/metadata/labels","value":{"shard.alpha.sharding.timebertt.dev/ring":"` + owner + `"}}]`,
		},
		"a main object with labels": {
			websites, `{"metadata":{"name":"home","namespace":"project","labels":{"a":"b"}}}`,
			`[{"op":"add","path":"/metadata/labels/` + escaped + `","value":"` + owner + `"}]`,
		},
		"its namespace is only in the request": {
			websites, `{"metadata":{"name":"home","labels":{}}}`,
			`[{"op":"add","path":"/metadata/labels/` + escaped + `","value":"` + owner + `"}]`,
		},
		"a controlled object, by its controller": {
			configMaps, `{"metadata":{"generateName":"home-","labels":{},"ownerReferences":[` +
				`{"apiVersion":"webhosting.timebertt.dev/v1alpha1","kind":"Website","name":"home","controller":true}]}}`,
			`[{"op":"add","path":"/metadata/labels/` + escaped + `","value":"` + owner + `"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var results []admission.Result
			response := ask(t, handler(t, true, &results), shardingv1alpha1.WebhookPath("ring"), test.resource, test.object)
			if diff := cmp.Diff(test.want, string(response.Patch)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]admission.Result{admission.Assigned}, results); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNeverRejectsAndNeverWarns sends requests that cannot be assigned. The helper send fails the test if a request is denied.
func TestNeverRejectsAndNeverWarns(t *testing.T) {
	const named = `{"metadata":{"name":"home"}}`
	for name, test := range map[string]struct {
		path       string
		object     string
		change     func(*admission.Handler)
		want       admission.Result
		unassigned bool
	}{
		"generated name": {"ring", `{"metadata":{"generateName":"home-"}}`, nil, admission.Postponed, true},
		"unknown ring":   {"other", named, nil, admission.Postponed, false},
		"unknown resource": {"ring", named, func(h *admission.Handler) {
			h.Rings = &catalog.Catalog{}
			h.Rings.(*catalog.Catalog).Set(&catalog.Ring{Name: "ring"})
		}, admission.Failed, false},
		"not an object":   {"ring", `[]`, nil, admission.Failed, true},
		"no shards":       {"ring", named, func(h *admission.Handler) { h.Members = membersOf(ring.New(nil)) }, admission.Postponed, false},
		"unknown members": {"ring", named, func(h *admission.Handler) { h.Members = membersOf(nil) }, admission.Postponed, false},
		"panic":           {"ring", named, func(h *admission.Handler) { h.Members = membersFunc(func() *ring.Ring { panic("at the disco") }) }, admission.Failed, true},
		"has a shard":     {"ring", `{"metadata":{"name":"home","labels":{"shard.alpha.sharding.timebertt.dev/ring":"gone"}}}`, nil, admission.Kept, false},
	} {
		for _, dryRun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dry run %t", name, dryRun), func(t *testing.T) {
				var results []admission.Result
				h := handler(t, true, &results)
				if test.change != nil {
					test.change(h)
				}
				var unassigned []string
				h.OnUnassigned = func(ring string, resource schema.GroupResource, namespace string) {
					unassigned = append(unassigned, ring+" "+resource.String()+" "+namespace)
				}
				response := send(t, h, shardingv1alpha1.WebhookPath(test.path), websites, test.object, dryRun)
				if len(response.Patch) > 0 || response.PatchType != nil {
					t.Errorf("it patches: %s", response.Patch)
				}
				if len(response.Warnings) > 0 {
					t.Errorf("the warnings are %q", response.Warnings)
				}
				if diff := cmp.Diff([]admission.Result{test.want}, results); diff != "" {
					t.Error(diff)
				}
				var want []string
				if test.unassigned && !dryRun {
					want = []string{"ring websites.webhosting.timebertt.dev project"}
				}
				if diff := cmp.Diff(want, unassigned); diff != "" {
					t.Errorf("OnUnassigned calls (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestChildIsAssignedToOwnerOfItsController creates a child while objects may be draining.
func TestChildIsAssignedToOwnerOfItsController(t *testing.T) {
	const child = `{"metadata":{"name":"c","labels":{},"ownerReferences":[` +
		`{"apiVersion":"webhosting.timebertt.dev/v1alpha1","kind":"Website","name":"home","controller":true}]}}`
	desired := shards.Owner(catalog.MainObject{Kind: website, Namespace: "project", Name: "home"}.Key())
	other := map[string]string{"a": "b", "b": "c", "c": "a"}[desired]
	for name, test := range map[string]struct {
		located string
		err     error
		want    string
	}{
		"still elsewhere":     {other, nil, other},
		"with a dead shard":   {"gone", nil, desired},
		"cannot be looked up": {"", errors.New("the API server is busy"), desired},
		"as the ring says":    {desired, nil, desired},
	} {
		t.Run(name, func(t *testing.T) {
			var results []admission.Result
			outstanding, changed := handler(t, false, &results), handler(t, true, &results)
			changed.Since = func(string) time.Time { return time.Now() }
			for why, h := range map[string]*admission.Handler{"drains are outstanding": outstanding, "the members have just changed": changed} {
				h.Locate = func(context.Context, string, catalog.MainObject) (string, error) { return test.located, test.err }
				response := ask(t, h, shardingv1alpha1.WebhookPath("ring"), configMaps, child)
				if !bytes.Contains(response.Patch, []byte(`"value":"`+test.want+`"`)) {
					t.Errorf("%s: the patch is %s, want %s", why, response.Patch, test.want)
				}
			}
		})
	}
}

// post returns a request as API servers send it.
func post(path string, body []byte) *http.Request {
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return request
}

func TestMalformedRequestIsRefused(t *testing.T) {
	var results []admission.Result
	for _, body := range []string{"", "{}", "garbage"} {
		recorder := httptest.NewRecorder()
		handler(t, true, &results).ServeHTTP(recorder, post(shardingv1alpha1.WebhookPath("ring"), []byte(body)))
		if recorder.Code != http.StatusBadRequest {
			t.Errorf("for %q the answer is %d", body, recorder.Code)
		}
	}
}
