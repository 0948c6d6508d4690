package webhosting

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ringmaster-project/ringmaster/internal/manifest"
)

// maxWebsites is a limit that a control plane on one machine can handle.
const maxWebsites = 5000

// samples returns the sample objects of the example by kind.
func (d *Demo) samples() (map[string][]*unstructured.Unstructured, error) {
	objects, err := manifest.Read(d.example.files, "samples")
	if err != nil {
		return nil, fmt.Errorf("reading the samples: %w", err)
	}
	samples := map[string][]*unstructured.Unstructured{}
	for _, object := range objects {
		samples[object.GetKind()] = append(samples[object.GetKind()], object)
	}
	return samples, nil
}

// createSamples creates projects and themes. Existing ones are not changed.
func (d *Demo) createSamples(ctx context.Context) error {
	samples, err := d.samples()
	if err != nil {
		return err
	}
	for _, kind := range []string{"Namespace", "Theme"} {
		for _, object := range samples[kind] {
			if err := d.create(ctx, object); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Demo) create(ctx context.Context, object *unstructured.Unstructured) error {
	if err := d.Client.Create(ctx, object.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// websites creates websites until the wanted number exists, and returns how many it created.
func (d *Demo) websites(ctx context.Context, wanted int, progress func(string)) (int, error) {
	d.creating.Lock() // concurrent calls would create too many
	defer d.creating.Unlock()
	samples, err := d.samples()
	if err != nil {
		return 0, err
	}
	existing := map[string]bool{}
	for _, object := range d.observer.Objects() {
		existing[object.String()] = true
	}
	missing := missingWebsites(samples, existing, wanted)
	return len(missing), d.createAll(ctx, missing, progress)
}

// missingWebsites returns the websites to create until the wanted number exists: first the samples,
// and then numbered websites that alternate between the projects and themes of the samples.
func missingWebsites(samples map[string][]*unstructured.Unstructured, existing map[string]bool, wanted int) []*unstructured.Unstructured {
	named, projects, themes := samples["Website"], samples["Namespace"], samples["Theme"]
	var missing []*unstructured.Unstructured
	for i := 0; len(existing)+len(missing) < wanted; i++ {
		var website *unstructured.Unstructured
		if i < len(named) {
			website = named[i]
		} else {
			website = named[0].DeepCopy()
			website.SetNamespace(projects[i%len(projects)].GetName())
			website.SetName(fmt.Sprintf("site-%04d", i+1))
			theme := themes[i/len(projects)%len(themes)].GetName()
			_ = unstructured.SetNestedField(website.Object, theme, "spec", "theme") // the sample has a spec
		}
		if !existing[website.GetNamespace()+"/"+website.GetName()] {
			missing = append(missing, website)
		}
	}
	return missing
}

// createAll creates objects concurrently, and reports the progress every few seconds.
func (d *Demo) createAll(ctx context.Context, objects []*unstructured.Unstructured, progress func(string)) error {
	const concurrency, reportInterval = 8, 3 * time.Second
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *unstructured.Unstructured)
	var created atomic.Int64
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for object := range queue {
				if err := d.create(ctx, object); err != nil {
					cancel(err)
					return
				}
				created.Add(1)
			}
		})
	}
	reportedAt := time.Now()
	for _, object := range objects {
		select {
		case queue <- object:
		case <-ctx.Done():
		}
		if now := time.Now(); now.Sub(reportedAt) > reportInterval {
			reportedAt = now
			progress(fmt.Sprintf("Created %d of %d websites", created.Load(), len(objects)))
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}
