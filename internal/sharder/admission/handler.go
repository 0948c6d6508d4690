// Package admission assigns new objects to shards as they pass the API server.
//
// It promises never to reject a request: on any failure, the object is created without a shard, and a rescue
// or sweep assigns it later. It sends no warnings either, because the user could not act on them. It adds
// the shard label to an object that has none, and changes nothing else.
package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// Result is the result of a request.
type Result string

// The results.
const (
	// Assigned: the object was assigned to a shard.
	Assigned Result = "assigned"
	// Kept: the object already had a shard.
	Kept Result = "kept"
	// Ignored: the object is of a controlled resource, but its controller is not in the ring.
	Ignored Result = "ignored"
	// Postponed: the object cannot be assigned yet: it has no name, or its ring is not known or has no
	// shards. A rescue assigns it.
	Postponed Result = "postponed"
	// Failed: the sharder failed. A rescue assigns the object.
	Failed Result = "failed"
)

// Handler answers the API server. Every replica of the sharder runs one.
type Handler struct {
	Rings   catalog.Source
	Members members.Source
	// Locate returns the current owner of an object. It is called for the controller of a new object while
	// the controller may be draining.
	Locate func(ctx context.Context, ring string, owner catalog.MainObject) (shard string, err error)
	// OnResult is called with the result of each request, for metrics.
	OnResult func(ring string, resource schema.GroupResource, result Result, took time.Duration)
	// OnUnassigned is called when an object passes without a shard although its ring has shards. It must not
	// block, because a user's request waits for it. It is not called for a dry run, which stores nothing.
	OnUnassigned func(ring string, resource schema.GroupResource, namespace string)
	// Since returns when the members of a ring last changed.
	Since func(ring string) time.Time
	// Now returns the current time.
	Now func() time.Time
	// Memory is the memory that all requests at a time may take. DefaultMemory is the default.
	Memory int64

	limiter limiter
}

// maxReviewSize is the maximum size of a request: twice the API server's limit for an object, for the old and
// the new one, with a margin.
const maxReviewSize = 8 << 20

// readTimeout is how long a request may take to arrive: as long as an API server waits for the response.
const readTimeout = time.Second

// maxWait is how long a request waits while others take all memory. It leaves most of the webhook's timeout of 1 s.
const maxWait = 300 * time.Millisecond

// drainedStatusDelay is the time after a change of the members until the condition Drained shows its drains.
// Until then, a controller may be on another shard than the ring says.
const drainedStatusDelay = 30 * time.Second

// locateTimeout bounds how long a user's request waits for Locate. It leaves most of the webhook's timeout of 1 s.
const locateTimeout = 300 * time.Millisecond

// Reasons to postpone an assignment, which is normal after an install.
var (
	errUnknownRing = errors.New("is not known yet")
	errNoShards    = errors.New("has no shards")
)

func (h *Handler) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	name := strings.TrimPrefix(request.URL.Path, shardingv1alpha1.WebhookPathPrefix)
	if problem, code := invalid(request, name); problem != "" {
		http.Error(writer, problem, code)
		return
	}
	size := request.ContentLength
	if size < 0 {
		size = maxReviewSize
	}
	size *= memoryFactor
	// A peer that declares a large body and does not send it must not keep its memory.
	_ = http.NewResponseController(writer).SetReadDeadline(time.Now().Add(readTimeout))
	waiting, cancel := context.WithTimeout(request.Context(), maxWait)
	defer cancel()
	if !h.limiter.acquire(waiting, size, cmp.Or(h.Memory, DefaultMemory)) {
		// With the failure policy Ignore, the user's request succeeds, and a rescue assigns the object.
		http.Error(writer, "too many requests at the same time", http.StatusServiceUnavailable)
		return
	}
	defer h.limiter.release(size)
	review := &review{}
	err := json.NewDecoder(http.MaxBytesReader(writer, request.Body, maxReviewSize)).Decode(review)
	if err != nil || review.Request == nil {
		// Not an API server, or an incomplete request without a UID to answer to. With the failure policy
		// Ignore, the user's request succeeds anyway.
		http.Error(writer, "not an admission review", http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: h.respond(request.Context(), name, review.Request)}
	writer.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(writer).Encode(response); err != nil {
		logf.FromContext(request.Context()).V(1).Info("Failed to write an admission response", "error", err.Error())
	}
}

// review is what the webhook reads of an AdmissionReview. Everything else is skipped: parsed, it can take many times the
// memory of its text.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *reviewRequest `json:"request"`
}

type reviewRequest struct {
	UID       types.UID                   `json:"uid"`
	Resource  metav1.GroupVersionResource `json:"resource"`
	Name      string                      `json:"name"`
	Namespace string                      `json:"namespace"`
	DryRun    *bool                       `json:"dryRun"`
	Object    json.RawMessage             `json:"object"`
}

// maxReferencesSize is the maximum size of the owner references of an object. Each takes about 200 bytes.
const maxReferencesSize = 256 << 10

// parseObject returns the metadata of an object on which its owner depends.
func parseObject(content []byte) (*metav1.PartialObjectMetadata, error) {
	var parsed struct {
		Metadata struct {
			Name            string            `json:"name"`
			Namespace       string            `json:"namespace"`
			Labels          map[string]string `json:"labels"`
			OwnerReferences json.RawMessage   `json:"ownerReferences"`
		} `json:"metadata"`
	}
	object := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(content, &parsed); err != nil {
		return object, err
	}
	object.Name, object.Namespace, object.Labels = parsed.Metadata.Name, parsed.Metadata.Namespace, parsed.Metadata.Labels
	references := parsed.Metadata.OwnerReferences
	switch {
	case len(references) > maxReferencesSize:
		return object, fmt.Errorf("the owner references have %d bytes, more than %d", len(references), maxReferencesSize)
	case len(references) > 0:
		return object, json.Unmarshal(references, &object.OwnerReferences)
	}
	return object, nil
}

// invalid returns why a request cannot be one of an API server, and the status to answer with, or "". It does not read
// the body.
func invalid(request *http.Request, ring string) (problem string, code int) {
	media, _, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
	switch {
	case request.Method != http.MethodPost:
		return "must be a POST", http.StatusMethodNotAllowed
	case err != nil || media != "application/json":
		return "must have the content type application/json", http.StatusUnsupportedMediaType
	case request.ContentLength > maxReviewSize:
		return "larger than an admission review", http.StatusRequestEntityTooLarge
	case ring == "" || len(ring) > shardingv1alpha1.MaxNameLength || strings.Contains(ring, "/"):
		return "no ring has this name", http.StatusNotFound
	}
	return "", 0
}

// respond allows the request, with a patch if the object was assigned.
func (h *Handler) respond(ctx context.Context, name string, request *reviewRequest) (response *admissionv1.AdmissionResponse) {
	began := h.Now()
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}
	response = &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	result := Failed
	var err error
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic: %v", recovered)
			response.Patch, response.PatchType, result = nil, nil, Failed
		}
		log := logf.FromContext(ctx).WithValues("controllerRing", name, "resource", resource, "namespace", request.Namespace, "name", request.Name)
		switch result {
		case Failed:
			log.Error(err, "Failed to assign an object at admission")
		case Postponed:
			log.V(1).Info("Postponed an assignment", "reason", err.Error())
		case Assigned, Kept, Ignored:
		}
		if h.canAssignSoon(name, resource, result, err) && (request.DryRun == nil || !*request.DryRun) {
			h.OnUnassigned(name, resource, request.Namespace)
		}
		h.OnResult(name, resource, result, h.Now().Sub(began))
	}()
	var shard string
	object, err := parseObject(request.Object)
	if err != nil {
		return response
	}
	// At creation, only the request may have the namespace.
	if object.Namespace == "" {
		object.Namespace = request.Namespace
	}
	if shard, result, err = h.shardFor(ctx, name, resource, object); result == Assigned {
		response.Patch, err = patch(object.Labels, shardingv1alpha1.LabelShard(name), shard)
		jsonPatch := admissionv1.PatchTypeJSONPatch
		response.PatchType = &jsonPatch
	}
	return response
}

// shardFor returns the shard of an object, or why it has none.
func (h *Handler) shardFor(ctx context.Context, name string, resource schema.GroupResource, object *metav1.PartialObjectMetadata) (string, Result, error) {
	declared := h.Rings.Get(name)
	if declared == nil {
		return "", Postponed, fmt.Errorf("ring %q %w", name, errUnknownRing)
	}
	found := declared.Resource(resource)
	if found == nil {
		return "", Failed, fmt.Errorf("ring %q has no resource %s", name, resource)
	}
	if object.Labels[shardingv1alpha1.LabelShard(name)] != "" {
		return "", Kept, nil
	}
	owner, err := found.MainObject(object)
	if errors.Is(err, catalog.ErrNotSharded) {
		return "", Ignored, nil
	}
	if err != nil {
		return "", Postponed, err
	}
	shards, _ := h.Members.Ring(name)
	if shards == nil || len(shards.Shards()) == 0 {
		return "", Postponed, fmt.Errorf("ring %q %w", name, errNoShards)
	}
	if !found.Main() && (!declared.Drained || h.Now().Sub(h.Since(name)) < drainedStatusDelay) {
		// The controller may still be on its previous shard, and its children must be on the same one.
		ctx, cancel := context.WithTimeout(ctx, locateTimeout)
		defer cancel()
		if shard, err := h.Locate(ctx, name, owner); err == nil && shards.Has(shard) {
			return shard, Assigned, nil
		}
	}
	return shards.Owner(owner.Key()), Assigned, nil
}

// canAssignSoon reports whether an unassigned object can probably be assigned soon. A ring that is not known
// yet or has no shards lists all objects when that changes.
func (h *Handler) canAssignSoon(name string, resource schema.GroupResource, result Result, err error) bool {
	switch result {
	case Postponed:
		return errors.Is(err, catalog.ErrNoNameYet)
	case Failed:
		declared := h.Rings.Get(name)
		return declared != nil && declared.Resource(resource) != nil
	case Assigned, Kept, Ignored:
	}
	return false
}

// patch returns a JSON patch that adds a label.
func patch(labels map[string]string, key, value string) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	add := operation{"add", "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value}
	if labels == nil {
		add = operation{"add", "/metadata/labels", map[string]string{key: value}}
	}
	return json.Marshal([]operation{add})
}
