// Package admission assigns new objects to shards as they pass the API server.
//
// It promises never to reject a request: on any failure, the object is created without a shard, and a rescue
// or sweep assigns it later. It sends no warnings either, because the user could do nothing about them. It adds
// the shard label to an object that has none and changes nothing else.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// Result is what came of a request.
type Result string

// The results.
const (
	// Assigned: the object got a shard.
	Assigned Result = "assigned"
	// Kept: it had one.
	Kept Result = "kept"
	// Ignored: it is of a kind that the ring spreads with its controllers, but has none.
	Ignored Result = "ignored"
	// Postponed: it cannot get one yet: it has no name, or its ring is new or has no shards. The resync will
	// find it.
	Postponed Result = "postponed"
	// Failed: something is wrong on our side; the resync will find it.
	Failed Result = "failed"
)

// Handler answers the API server. Every replica of the sharder runs one.
type Handler struct {
	Rings   catalog.Source
	Members members.Source
	// Locate returns the shard that has an object now. It is asked where a controlled object belongs
	// while its controller may be on the way from one shard to another.
	Locate func(ctx context.Context, ring string, owner catalog.Owner) (shard string, err error)
	// Report is called with the result of each request, for metrics.
	Report func(ring string, resource schema.GroupResource, result Result, took time.Duration)
	// Seek is called when an object passes without a shard although there are shards: it should be looked for
	// soon. It must not block, because a user's request waits. It is not called for a dry run, which stores nothing.
	Seek func(ring string, resource schema.GroupResource, namespace string)
	// Since is when the members of a ring have changed last.
	Since func(ring string) time.Time
	// Now is the time.
	Now func() time.Time
}

// maxReview bounds what is read: the API server's own limit for an object, twice because of the old
// one, and some more.
const maxReview = 8 << 20

// unsettled is how long after a change of members controllers may be elsewhere than the ring says and
// its status has not told so yet: nobody has looked.
const unsettled = 30 * time.Second

// locateLimit bounds how long the user's request waits for a look at the controller. It leaves most of the webhook's
// timeout of 1 s for the rest.
const locateLimit = 300 * time.Millisecond

// Why an assignment is postponed, which is normal after an install.
var (
	errUnknownRing = errors.New("is not known yet")
	errNoShards    = errors.New("has no shards")
)

func (h *Handler) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	review := &admissionv1.AdmissionReview{}
	err := json.NewDecoder(http.MaxBytesReader(writer, request.Body, maxReview)).Decode(review)
	if err != nil || review.Request == nil {
		// Not an API server, or not all of its request. With the policy Ignore a failed call is no
		// obstacle, and there is no UID to answer to.
		http.Error(writer, "not an admission review", http.StatusBadRequest)
		return
	}
	name := strings.TrimPrefix(request.URL.Path, shardingv1alpha1.WebhookPathPrefix)
	review.Response = h.respond(request.Context(), name, review.Request)
	review.Request = nil
	writer.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(writer).Encode(review); err != nil {
		logf.FromContext(request.Context()).V(1).Info("Could not write an admission response", "error", err.Error())
	}
}

// respond allows the request, with a patch if the object got a shard.
func (h *Handler) respond(ctx context.Context, name string, request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse) {
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
			log.Error(err, "Could not assign an object at admission")
		case Postponed:
			log.V(1).Info("Postponed an assignment", "reason", err.Error())
		case Assigned, Kept, Ignored:
		}
		if h.worthSeeking(name, resource, result, err) && (request.DryRun == nil || !*request.DryRun) {
			h.Seek(name, resource, request.Namespace)
		}
		h.Report(name, resource, result, h.Now().Sub(began))
	}()
	var shard string
	object := &metav1.PartialObjectMetadata{}
	if err = json.Unmarshal(request.Object.Raw, object); err != nil {
		return response
	}
	// At creation the namespace may be only in the request.
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

// shardFor decides which shard an object gets.
func (h *Handler) shardFor(ctx context.Context, name string, resource schema.GroupResource, object *metav1.PartialObjectMetadata) (string, Result, error) {
	declared := h.Rings.Get(name)
	if declared == nil {
		return "", Postponed, fmt.Errorf("ring %q %w", name, errUnknownRing)
	}
	spread := declared.Resource(resource)
	if spread == nil {
		return "", Failed, fmt.Errorf("ring %q has no resource %s", name, resource)
	}
	if object.Labels[shardingv1alpha1.LabelShard(name)] != "" {
		return "", Kept, nil
	}
	owner, err := spread.Owner(object)
	if errors.Is(err, catalog.ErrNotSpread) {
		return "", Ignored, nil
	}
	if err != nil {
		return "", Postponed, err
	}
	shards, _ := h.Members.Ring(name)
	if shards == nil || len(shards.Shards()) == 0 {
		return "", Postponed, fmt.Errorf("ring %q %w", name, errNoShards)
	}
	if !spread.Main() && (!declared.Settled || h.Now().Sub(h.Since(name)) < unsettled) {
		// The controller may still be with a shard that the ring no longer says, and its children
		// belong where it is.
		ctx, cancel := context.WithTimeout(ctx, locateLimit)
		defer cancel()
		if shard, err := h.Locate(ctx, name, owner); err == nil && shards.Has(shard) {
			return shard, Assigned, nil
		}
	}
	return shards.Owner(owner.Key()), Assigned, nil
}

// worthSeeking is whether an object that passed could get its shard soon. A ring that is not known yet looks at all
// objects when it is, and one without shards when the first one joins.
func (h *Handler) worthSeeking(name string, resource schema.GroupResource, result Result, err error) bool {
	switch result {
	case Postponed:
		return errors.Is(err, catalog.ErrNotYet)
	case Failed:
		declared := h.Rings.Get(name)
		return declared != nil && declared.Resource(resource) != nil
	case Assigned, Kept, Ignored:
	}
	return false
}

// patch adds a label.
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
