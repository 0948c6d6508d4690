package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/manifest"
)

// FieldManager is the field manager of everything that the demo applies.
const FieldManager = "ringmaster-up"

// InstallKinds applies CustomResourceDefinitions, and waits until the API server serves them.
func (c *Cluster) InstallKinds(ctx context.Context, kinds ...*unstructured.Unstructured) error {
	if err := manifest.Apply(ctx, c.Client, FieldManager, kinds...); err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := WaitFor(ctx, "CustomResourceDefinition "+kind.GetName()+" to be established", func(ctx context.Context) (bool, error) {
			found := kind.DeepCopy()
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(kind), found); err != nil {
				return false, err
			}
			return established(found), nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// established returns true if the API server serves the kind that a CustomResourceDefinition
// defines.
func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == "Established" {
			return fields["status"] == "True"
		}
	}
	return false
}

// Install applies objects. It retries while the API server does not serve their kinds yet.
func (c *Cluster) Install(ctx context.Context, description string, objects ...*unstructured.Unstructured) error {
	return WaitFor(ctx, description+" to be applied", func(ctx context.Context) (bool, error) {
		err := manifest.Apply(ctx, c.Client, FieldManager, objects...)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// WaitFor polls until the condition is true, or returns its error.
func WaitFor(ctx context.Context, description string, condition func(context.Context) (bool, error)) error {
	const interval = 50 * time.Millisecond
	for {
		done, err := condition(ctx)
		switch {
		case done && err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s: %w", description, context.Cause(ctx))
		case err != nil:
			return err
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
}
