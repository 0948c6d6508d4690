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

// fieldManager is the name under which the API server notes our writes.
const fieldManager = client.FieldOwner(manager)

// takenError says that an object of somebody else has the name of one of ours.
type takenError struct{ kind, name, whose string }

func (e *takenError) Error() string {
	return fmt.Sprintf("There is a %s %s that is not this website's: %s. It is left alone: delete it, or give the website another name.",
		e.kind, e.name, e.whose)
}

// goingError says that an object of ours, or of an earlier Website of the same name, is being deleted.
type goingError struct{ kind, name string }

func (e *goingError) Error() string {
	return fmt.Sprintf("The %s %s is being deleted. It is made anew as soon as it is gone.", e.kind, e.name)
}

// ensure makes a child what it should be, with one write if anything differs and none otherwise. It
// returns the child as it is in the API server then.
func (r *reconciler) ensure(ctx context.Context, website *webhostingv1alpha1.Website, c child) (client.Object, error) {
	created, err := r.findOrCreate(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case created:
		return c.want, nil
	case c.found.GetDeletionTimestamp() != nil || ofAnEarlier(website, c.found):
		return nil, &goingError{c.kind, c.found.GetName()}
	case !metav1.IsControlledBy(c.found, website):
		return nil, &takenError{c.kind, c.found.GetName(), whose(c.found)}
	}
	before, _ := c.found.DeepCopyObject().(client.Object)
	c.settle()
	if equality.Semantic.DeepEqual(before, c.found) {
		return c.found, nil
	}
	// A patch and not an update, which would drop fields that this program does not know yet.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, c.found, patch, fieldManager); err != nil {
		return nil, fmt.Errorf("changing %s %s: %w", c.kind, c.found.GetName(), err)
	}
	return c.found, nil
}

// findOrCreate looks in the cache. If the child is not there it is created, or, if only the cache does not
// have it, read from the API server.
func (r *reconciler) findOrCreate(ctx context.Context, c child) (created bool, err error) {
	name := client.ObjectKeyFromObject(c.want)
	if err := r.Get(ctx, name, c.found); !apierrors.IsNotFound(err) {
		return false, err
	}
	const attempts = 3 // another client can delete the child between the two requests
	for range attempts {
		err = r.Create(ctx, c.want, fieldManager)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating %s %s: %w", c.kind, name.Name, err)
		}
		// The cache is behind; or the object lacks a label by which caches select, because it is somebody
		// else's or because somebody has taken the label away.
		if err = r.live.Get(ctx, name, c.found); !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s, which the cache does not have: %w", c.kind, name.Name, err)
	}
	return false, nil
}

// ofAnEarlier tells whether an object is that of a Website of the same name that was deleted. It is not
// adopted: the garbage collector is about to delete it, and would not ask again.
func ofAnEarlier(website *webhostingv1alpha1.Website, object client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == kindWebsite && owner.Name == website.Name && owner.UID != website.UID
}

// whose tells people who controls an object.
func whose(object client.Object) string {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return "nobody controls it"
	}
	return owner.Kind + " " + owner.Name + " controls it"
}
