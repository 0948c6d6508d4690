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

// mostWebsites is what a control plane on one machine bears.
const mostWebsites = 5000

// samples are what the example brings along, by kind.
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

// createSamples makes projects and themes. What somebody has changed since an earlier run stays.
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

// websites creates websites until there are so many, and returns how many it has created.
func (d *Demo) websites(ctx context.Context, wanted int, say func(string)) (int, error) {
	d.creating.Lock() // two at a time would create too many
	defer d.creating.Unlock()
	samples, err := d.samples()
	if err != nil {
		return 0, err
	}
	there := map[string]bool{}
	for _, object := range d.scene.Objects() {
		there[object.String()] = true
	}
	missing := missingWebsites(samples, there, wanted)
	return len(missing), d.createAll(ctx, missing, say)
}

// missingWebsites are those that have to be created so that there are so many: the samples first, and then
// some with numbers, spread over the projects and themes of the samples.
func missingWebsites(samples map[string][]*unstructured.Unstructured, there map[string]bool, wanted int) []*unstructured.Unstructured {
	named, projects, themes := samples["Website"], samples["Namespace"], samples["Theme"]
	var missing []*unstructured.Unstructured
	for i := 0; len(there)+len(missing) < wanted; i++ {
		var website *unstructured.Unstructured
		if i < len(named) {
			website = named[i]
		} else {
			website = named[0].DeepCopy()
			website.SetNamespace(projects[i%len(projects)].GetName())
			website.SetName(fmt.Sprintf("site-%04d", i+1))
			theme := themes[i/len(projects)%len(themes)].GetName()
			_ = unstructured.SetNestedField(website.Object, theme, "spec", "theme") // it is a map, and there
		}
		if !there[website.GetNamespace()+"/"+website.GetName()] {
			missing = append(missing, website)
		}
	}
	return missing
}

// createAll creates objects, several at a time, and tells now and then how far it is.
func (d *Demo) createAll(ctx context.Context, objects []*unstructured.Unstructured, say func(string)) error {
	const atATime, quiet = 8, 3 * time.Second
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *unstructured.Unstructured)
	var created atomic.Int64
	var workers sync.WaitGroup
	for range atATime {
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
	told := time.Now()
	for _, object := range objects {
		select {
		case queue <- object:
		case <-ctx.Done():
		}
		if now := time.Now(); now.Sub(told) > quiet {
			told = now
			say(fmt.Sprintf("%d of %d created …", created.Load(), len(objects)))
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}
