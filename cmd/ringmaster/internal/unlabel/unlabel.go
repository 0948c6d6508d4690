// Package unlabel takes a ring's labels off its objects, when the ring is gone or about to go.
//
// It promises to change nothing but the two labels of that one ring, on objects that have one of them
// and are as they were when it looked.
package unlabel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/retry"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

const (
	// pageSize is how many objects are read at once.
	pageSize = 500
	// concurrency is how many objects are written at once. More would only wait in the API server.
	concurrency = 20
	// fieldManager is the name under which the API server notes our writes.
	fieldManager = "ringmaster-unlabel"
)

// onConflict is how a write is repeated on an object that others write too: for some 5 seconds.
var onConflict = wait.Backoff{Steps: 10, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: time.Second}

// ErrPutBack is returned when objects get their labels back as soon as they lose them. It ends the work:
// it would be the same with all others.
var ErrPutBack = errors.New("the ring's webhook puts the labels back")

// Options say what to do.
type Options struct {
	Metadata metadata.Interface
	// Ring is the name of the ring.
	Ring string
	// DryRun only counts.
	DryRun bool
	// Progress, when set, is told from time to time how many objects are done. Several goroutines
	// call it, one at a time.
	Progress func(Count)
}

// Count is what came of one resource.
type Count struct {
	Resource Resource
	// Found is how many objects had a label, Done how many have none any more.
	Found, Done int
	// PutBack is how many got the label again in the same write, from the ring's webhook.
	PutBack int
}

// Remove takes the labels off all objects of a resource. What it counted is right also with an error,
// which tells of the first few objects that failed.
func Remove(ctx context.Context, options Options, resource Resource) (Count, error) {
	r := &removal{Options: options, count: Count{Resource: resource}, slots: make(chan struct{}, concurrency)}
	// A selector cannot say "or". After the first, the second finds only what is drained and has no
	// shard, which is what a half-finished move leaves.
	shard, drain := shardingv1alpha1.LabelShard(options.Ring), shardingv1alpha1.LabelDrain(options.Ring)
	for _, selector := range []string{shard, drain + ",!" + shard} {
		if err := r.each(ctx, selector); err != nil {
			r.fail(err)
			break
		}
		if r.putBack() {
			break
		}
	}
	if r.putBack() {
		r.errs = append(r.errs, ErrPutBack)
	}
	return r.count, errors.Join(r.errs...)
}

// removal is the work on one resource.
type removal struct {
	Options
	slots chan struct{}

	mu    sync.Mutex
	count Count
	errs  []error
}

// each removes the labels from the selected objects.
func (r *removal) each(ctx context.Context, selector string) error {
	var group sync.WaitGroup
	defer group.Wait()
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := r.Metadata.Resource(r.count.Resource.GroupVersionResource).List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			// The writes took so long that the API server has forgotten the list. What is done is not
			// selected any more.
			group.Wait()
			options.Continue = ""
			continue
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", r.count.Resource, err)
		}
		for i := range page.Items {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case r.slots <- struct{}{}:
			}
			group.Go(func() {
				defer func() { <-r.slots }()
				r.one(ctx, &page.Items[i])
			})
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
		if r.putBack() {
			return nil
		}
	}
}

func (r *removal) putBack() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count.PutBack > 0
}

// one removes the labels from one object, and counts.
func (r *removal) one(ctx context.Context, object *metav1.PartialObjectMetadata) {
	var after *metav1.PartialObjectMetadata
	var err error
	if !r.DryRun {
		after, err = r.write(ctx, object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count.Found++
	switch {
	case err != nil:
		r.failLocked(fmt.Errorf("%s %s: %w", r.count.Resource, nameOf(object), err))
	case after != nil && labelled(after, r.Ring):
		r.count.PutBack++
	default:
		r.count.Done++
	}
	if r.Progress != nil {
		r.Progress(r.count)
	}
}

// write writes the object. It returns what the API server made of it, or nil if it is gone.
func (r *removal) write(ctx context.Context, object *metav1.PartialObjectMetadata) (after *metav1.PartialObjectMetadata, err error) {
	var client metadata.ResourceInterface = r.Metadata.Resource(r.count.Resource.GroupVersionResource)
	if r.count.Resource.Namespaced {
		client = r.Metadata.Resource(r.count.Resource.GroupVersionResource).Namespace(object.Namespace)
	}
	current := object
	err = retry.OnError(onConflict, apierrors.IsConflict, func() error {
		if current == nil { // the time before, somebody else was faster
			if current, err = client.Get(ctx, object.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		if after = current; !labelled(current, r.Ring) {
			return nil
		}
		patch, err := removePatch(r.Ring, current.ResourceVersion)
		if err != nil {
			return err
		}
		current = nil
		after, err = client.Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil // with its labels
	}
	return after, err
}

// removePatch removes both labels from the object of this very version: a shard may be about to
// hand it over.
func removePatch(ring, version string) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": version,
		"labels":          map[string]any{shardingv1alpha1.LabelShard(ring): nil, shardingv1alpha1.LabelDrain(ring): nil},
	}})
}

func labelled(object *metav1.PartialObjectMetadata, ring string) bool {
	_, shard := object.Labels[shardingv1alpha1.LabelShard(ring)]
	_, drain := object.Labels[shardingv1alpha1.LabelDrain(ring)]
	return shard || drain
}

func nameOf(object *metav1.PartialObjectMetadata) string {
	return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}.String()
}

func (r *removal) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err)
}

// failLocked notes an error. A few are enough to know why: all objects may fail for the same reason.
func (r *removal) failLocked(err error) {
	const enough = 3
	if len(r.errs) < enough {
		r.errs = append(r.errs, err)
	}
}
