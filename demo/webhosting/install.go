package webhosting

import (
	"context"
	"fmt"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ringmaster-project/ringmaster/config"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
)

// installKinds installs the CustomResourceDefinitions.
func (d *Demo) installKinds(ctx context.Context) error {
	kinds, err := manifest.Read(d.example.files, "crds")
	if err != nil {
		return fmt.Errorf("reading the example's manifests: %w", err)
	}
	if d.options.Mode == view.ModeShard {
		rings, err := manifest.Read(config.Manifests, "crds")
		if err != nil {
			return fmt.Errorf("reading the manifests of Ringmaster: %w", err)
		}
		kinds = append(rings, kinds...)
	}
	return d.InstallKinds(ctx, kinds...)
}

// installRoles installs namespaces, ServiceAccounts, roles and the ring.
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
	for _, path := range d.example.manifestPaths(d.options.Mode) {
		sources = append(sources, source{d.example.files, path})
	}
	for _, source := range sources {
		objects, err := manifest.Read(source.files, source.path)
		if err != nil {
			return fmt.Errorf("reading the manifests: %w", err)
		}
		if err := d.Install(ctx, source.path, objects...); err != nil {
			return err
		}
	}
	return nil
}

// removeRing removes the ControllerRing of an earlier run in another mode, so that only one sharder
// assigns the objects. It needs no precondition, because the ring must not exist in any version.
func (d *Demo) removeRing(ctx context.Context) error {
	rings, err := manifest.Read(d.example.files, "ring/ring.yaml")
	if err != nil {
		return fmt.Errorf("reading the example's manifests: %w", err)
	}
	for _, ring := range rings {
		if err := d.Client.Delete(ctx, ring); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the ControllerRing of another mode: %w", err)
		}
	}
	return nil
}
