package demo

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/config"
	"github.com/ringmaster-project/ringmaster/internal/demo/view"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
)

// owner is who applies, as far as the API server is concerned.
const owner = "ringmaster-up"

// installKinds makes the cluster know our kinds.
func (d *Demo) installKinds(ctx context.Context) error {
	kinds, err := manifest.Read(d.example.files, "crds")
	if err != nil {
		return fmt.Errorf("reading the example's manifests: %w", err)
	}
	if d.options.Mode == view.ModeShard {
		ours, err := manifest.Read(config.Manifests, "crds")
		if err != nil {
			return fmt.Errorf("reading our manifests: %w", err)
		}
		kinds = append(ours, kinds...)
	}
	if err := manifest.Apply(ctx, d.client, owner, kinds...); err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := d.until(ctx, "the kind "+kind.GetName()+" to be known", func(ctx context.Context) (bool, error) {
			found := kind.DeepCopy()
			if err := d.client.Get(ctx, client.ObjectKeyFromObject(kind), found); err != nil {
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

// installRoles makes namespaces, ServiceAccounts, what they may do, and the ring.
func (d *Demo) installRoles(ctx context.Context) error {
	type source struct {
		files fs.FS
		path  string
	}
	var sources []source
	if d.options.Mode == view.ModeShard {
		sources = append(sources, source{config.Manifests, "sharder/namespace.yaml"}, source{config.Manifests, "rbac"})
	} else if err := d.removeRing(ctx); err != nil {
		return err
	}
	for _, path := range d.example.installs(d.options.Mode) {
		sources = append(sources, source{d.example.files, path})
	}
	for _, source := range sources {
		objects, err := manifest.Read(source.files, source.path)
		if err != nil {
			return fmt.Errorf("reading the manifests: %w", err)
		}
		// The API server may know a new kind already and not serve it yet.
		if err := d.until(ctx, source.path+" to be applied", func(ctx context.Context) (bool, error) {
			err := manifest.Apply(ctx, d.client, owner, objects...)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// removeRing removes what an earlier run on the same data has left that would have the same objects spread by
// two. It needs no precondition: whatever it is by now, it must not be there.
func (d *Demo) removeRing(ctx context.Context) error {
	rings, err := manifest.Read(d.example.files, "ring/ring.yaml")
	if err != nil {
		return fmt.Errorf("reading the example's manifests: %w", err)
	}
	for _, ring := range rings {
		if err := d.client.Delete(ctx, ring); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the ControllerRing of another mode: %w", err)
		}
	}
	return nil
}

// until waits for something to hold. An error ends it.
func (d *Demo) until(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
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
