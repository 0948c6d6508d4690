package website

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// fieldManager is the field manager of all writes.
const fieldManager = client.FieldOwner(manager)

// nameTakenError is returned if an object of another owner has the name of a child.
type nameTakenError struct{ kind, name, controller string }

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("%s %s is not owned by this website: %s. Delete it, or create the website under another name.",
		e.kind, e.name, e.controller)
}

// terminatingError is returned if a child, or that of an earlier Website of the same name, is being
// deleted.
type terminatingError struct{ kind, name string }

func (e *terminatingError) Error() string {
	return fmt.Sprintf("%s %s is being deleted. It is created again when it is gone.", e.kind, e.name)
}

// ensure brings a child to its desired state, with one write if it differs and none otherwise. It
// returns the current child.
func (r *reconciler) ensure(ctx context.Context, website *webhostingv1alpha1.Website, c child) (client.Object, error) {
	created, err := r.findOrCreate(ctx, c, website.Status.ObservedGeneration > 0)
	switch {
	case err != nil:
		return nil, err
	case created:
		return c.desired, nil
	case c.current.GetDeletionTimestamp() != nil || ownedByEarlierWebsite(website, c.current):
		return nil, &terminatingError{c.kind, c.current.GetName()}
	case !metav1.IsControlledBy(c.current, website):
		return nil, &nameTakenError{c.kind, c.current.GetName(), describeController(c.current)}
	}
	before, _ := c.current.DeepCopyObject().(client.Object)
	c.apply()
	if equality.Semantic.DeepEqual(before, c.current) {
		return c.current, nil
	}
	// A patch, because an update would drop fields that this version of the program does not know.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, c.current, patch, fieldManager); err != nil {
		return nil, fmt.Errorf("changing %s %s: %w", c.kind, c.current.GetName(), err)
	}
	return c.current, nil
}

// findOrCreate reads the child from the cache. If it is missing there, it is created, or, if it
// exists, read from the API server. The children of a Website that has been reconciled before
// probably exist.
func (r *reconciler) findOrCreate(ctx context.Context, c child, reconciledBefore bool) (created bool, err error) {
	name := client.ObjectKeyFromObject(c.desired)
	if err := r.Get(ctx, name, c.current); !apierrors.IsNotFound(err) {
		return false, err
	}
	if reconciledBefore {
		// After the kill of its last owner, the Website can be in the cache before its children.
		// Even a refused creation costs the API server more than a read: that of a Service
		// allocates an IP address and releases it.
		switch err := r.live.Get(ctx, name, c.current); {
		case err == nil:
			return false, nil
		case !apierrors.IsNotFound(err):
			return false, fmt.Errorf("reading %s %s from the API server: %w", c.kind, name.Name, err)
		}
	}
	const attempts = 3 // another client can delete the child between the two requests
	for range attempts {
		err = r.Create(ctx, c.desired, fieldManager)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating %s %s: %w", c.kind, name.Name, err)
		}
		// The cache is stale, or the object lacks the label by which the cache selects: it is of
		// another owner, or the label was removed.
		if err = r.live.Get(ctx, name, c.current); !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s from the API server: %w", c.kind, name.Name, err)
	}
	return false, nil
}

// ownedByEarlierWebsite returns true if an object belongs to a deleted Website of the same name. It
// is not adopted, because the garbage collector may be about to delete it.
func ownedByEarlierWebsite(website *webhostingv1alpha1.Website, object client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == kindWebsite && owner.Name == website.Name && owner.UID != website.UID
}

// describeController names the controller of an object.
func describeController(object client.Object) string {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return "it has no controller"
	}
	return owner.Kind + " " + owner.Name + " controls it"
}
