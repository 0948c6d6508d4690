// Package unlabel removes a ring's labels from its objects, after the ring was deleted.
//
// It guarantees that it changes only the two labels of that ring, and only in the version of the object that it has read.
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
	// pageSize is the number of objects in one page of a list.
	pageSize = 500
	// concurrency is the number of concurrent writes. More would only queue in the API server.
	concurrency = 20
	// fieldManager is the field manager of the writes.
	fieldManager = "ringmaster-unlabel"
)

// onConflict is the backoff of a write after conflicts with other writers, in total about 5 seconds.
var onConflict = wait.Backoff{Steps: 10, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: time.Second}

// ErrPutBack is returned when the ring's webhook adds the labels again in the same write. No further object is tried: the
// result would be the same.
var ErrPutBack = errors.New("the ring's webhook puts the labels back")

// Options configure Remove.
type Options struct {
	Metadata metadata.Interface
	// Ring is the name of the ring.
	Ring string
	// DryRun counts the objects, and changes nothing.
	DryRun bool
	// Progress, if set, is called after each object, from several goroutines but never concurrently.
	Progress func(Count)
}

// Count is the result for one resource.
type Count struct {
	Resource Resource
	// Found is the number of objects that had a label, Done the number of those that have none now.
	Found, Done int
	// PutBack is the number of objects to which the ring's webhook added the label in the same write.
	PutBack int
}

// Remove removes the labels from all objects of a resource. The count is valid also together with an error, which names the
// first objects that failed.
func Remove(ctx context.Context, options Options, resource Resource) (Count, error) {
	r := &removal{Options: options, count: Count{Resource: resource}, slots: make(chan struct{}, concurrency)}
	// A selector cannot express "or". After the first selector, the second finds the objects with only a drain label, which an
	// unfinished move leaves behind.
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

// removal is the state of Remove.
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
			// The writes took so long that the continue token has expired. A new list selects only the remaining objects.
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

// one removes the labels from one object, and counts the result.
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

// write patches the object. It returns the object after the write, or nil if it was deleted.
func (r *removal) write(ctx context.Context, object *metav1.PartialObjectMetadata) (after *metav1.PartialObjectMetadata, err error) {
	var client metadata.ResourceInterface = r.Metadata.Resource(r.count.Resource.GroupVersionResource)
	if r.count.Resource.Namespaced {
		client = r.Metadata.Resource(r.count.Resource.GroupVersionResource).Namespace(object.Namespace)
	}
	current := object
	err = retry.OnError(onConflict, apierrors.IsConflict, func() error {
		if current == nil { // the previous attempt had a conflict
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
		return nil, nil // its labels are deleted with it
	}
	return after, err
}

// removePatch returns a patch that removes both labels from this version of the object: a shard may write to it at the same
// time, to release it.
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

// failLocked records an error. It keeps only the first few: all objects may fail for the same reason.
func (r *removal) failLocked(err error) {
	const maxErrors = 3
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, err)
	}
}
