package admission_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/admission"
)

// FuzzReview sends any body to the webhook. A response never denies a request, and changes nothing but the shard label.
func FuzzReview(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "garbage", `{"request":null}`, `{"request":{}}`, `{"request":{"uid":"1","object":null}}`,
		`{"request":{"uid":"1","resource":{"group":"apps","resource":"deployments"},"object":{"metadata":{"name":"a","labels":null}}}}`,
		`{"request":{"uid":"1","resource":{"resource":"configmaps"},"object":{"metadata":{"name":"a","labels":{"~/":"/~"}}}}}`,
		`{"request":{"uid":"1","resource":{"resource":"configmaps"},"object":{"metadata":{"name":7}}}}`,
		`{"request":{"uid":"1","resource":{"resource":"secrets"},"object":{"metadata":{"ownerReferences":[{"controller":true,"kind":"x","apiVersion":"//"}]}}}}`,
	} {
		f.Add("ring", []byte(seed))
	}
	f.Add("", []byte("{}"))
	f.Add("a/b", []byte("{}"))
	f.Fuzz(func(t *testing.T, ring string, body []byte) {
		var results []admission.Result
		h := handler(t, true, &results)
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		request.URL.Path = shardingv1alpha1.WebhookPathPrefix + ring
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK {
			if recorder.Code >= http.StatusInternalServerError {
				t.Errorf("the status is %d", recorder.Code)
			}
			return
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil || !review.Response.Allowed {
			t.Fatalf("the response is %s: %v", recorder.Body, err)
		}
		if len(review.Response.Patch) == 0 {
			return
		}
		var patch []struct{ Op, Path string }
		if err := json.Unmarshal(review.Response.Patch, &patch); err != nil || len(patch) != 1 || patch[0].Op != "add" || !strings.HasPrefix(patch[0].Path, "/metadata/labels") {
			t.Errorf("the patch is %s: %v", review.Response.Patch, err)
		}
	})
}
