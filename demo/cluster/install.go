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

// Owner is who applies, as far as the API server is concerned.
const Owner = "ringmaster-up"

// InstallKinds makes the cluster know kinds.
func (s *Stage) InstallKinds(ctx context.Context, kinds ...*unstructured.Unstructured) error {
	if err := manifest.Apply(ctx, s.Client, Owner, kinds...); err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := Until(ctx, "the kind "+kind.GetName()+" to be known", func(ctx context.Context) (bool, error) {
			found := kind.DeepCopy()
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(kind), found); err != nil {
				return false, err
			}
			return established(found), nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// established tells whether the API server serves the kind that the object defines.
func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, is := condition.(map[string]any); is && fields["type"] == "Established" {
			return fields["status"] == "True"
		}
	}
	return false
}

// Install applies objects, which may be of kinds that the API server knows already and does not serve yet.
func (s *Stage) Install(ctx context.Context, what string, objects ...*unstructured.Unstructured) error {
	return Until(ctx, what+" to be applied", func(ctx context.Context) (bool, error) {
		err := manifest.Apply(ctx, s.Client, Owner, objects...)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// Until waits for something to hold. An error ends it.
func Until(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	const interval = 50 * time.Millisecond
	for {
		done, err := holds(ctx)
		switch {
		case done && err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case err != nil:
			return err
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
}
