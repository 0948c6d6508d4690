package regions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/demo/view"
	etcdcluster "github.com/ringmaster-project/ringmaster/examples/etcdcluster/config"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// kind is the kind of the object that describes the members of a region.
var kind = schema.GroupVersionKind{Group: "etcdcluster.timebertt.dev", Version: "v1alpha1", Kind: "EtcdCluster"}

// sample returns the sample EtcdCluster of a region.
func sample(region string) (*unstructured.Unstructured, error) {
	objects, err := manifest.Read(etcdcluster.Files, "samples/"+region+"/etcdcluster.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the samples: %w", err)
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("reading the samples: got %d objects for %s, want 1", len(objects), region)
	}
	return objects[0], nil
}

// systemName returns the name of the system, which is the name of its EtcdClusters.
func systemName() (string, error) {
	object, err := sample(regionNames[0])
	if err != nil {
		return "", err
	}
	return object.GetName(), nil
}

// create creates the EtcdCluster of a region. If it exists from an earlier run, only its mode is
// changed.
func (d *Demo) create(ctx context.Context, region, seed string) error {
	object, err := sample(region)
	if err != nil {
		return err
	}
	spec, ok := object.Object["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("the sample of %s has no spec", region)
	}
	// The seeds in the sample are for agents with fixed ports.
	delete(spec, "seeds")
	if seed != "" {
		spec["seeds"] = []any{seed}
	}
	err = errors.Join(
		unstructured.SetNestedField(spec, d.options.Mode, "automationOptions", "synchronizationMode"),
		unstructured.SetNestedField(spec, quietWindow.String(), "automationOptions", "quietWindow"))
	if err != nil {
		return err
	}
	err = d.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return d.edit(ctx, region, func(spec map[string]any) error {
			return unstructured.SetNestedField(spec, d.options.Mode, "automationOptions", "synchronizationMode")
		})
	}
	if err != nil {
		return fmt.Errorf("creating the EtcdCluster of %s: %w", region, err)
	}
	return nil
}

// edit changes the spec of the EtcdCluster of a region, with optimistic locking.
func (d *Demo) edit(ctx context.Context, region string, change func(spec map[string]any) error) error {
	object, err := sample(region)
	if err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := d.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		spec, ok := object.Object["spec"].(map[string]any)
		if !ok {
			return errors.New("the object has no spec")
		}
		if err := change(spec); err != nil {
			return err
		}
		return d.Client.Update(ctx, object)
	})
	if err != nil {
		return fmt.Errorf("changing the EtcdCluster of %s: %w", region, err)
	}
	return nil
}

// argument is an etcd flag that requires a restart, and whose value does not matter here.
const argument = "snapshot-count"

// restart changes an argument of all members, so that they have to be restarted.
func (d *Demo) restart(ctx context.Context) (string, error) {
	d.editing.Lock()
	defer d.editing.Unlock()
	highest := int64(10_000) // the default of etcd
	clusters, err := d.clusters(ctx)
	if err != nil {
		return "", err
	}
	if err := requireAllRegions(clusters, d.system); err != nil {
		return "", err
	}
	for i := range clusters {
		value, _, _ := unstructured.NestedString(clusters[i].Object, "spec", "args", argument)
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			highest = max(highest, number)
		}
	}
	value := strconv.FormatInt(highest+1000, 10)
	for _, region := range regionNames {
		if err := d.edit(ctx, region, func(spec map[string]any) error {
			return unstructured.SetNestedField(spec, value, "args", argument)
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("Set --%s=%s for all members, which now have to be restarted.", argument, value), nil
}

// requireAllRegions returns an error if a region has no EtcdCluster, because a change is made in
// all regions or in none.
func requireAllRegions(clusters []unstructured.Unstructured, system string) error {
	for _, region := range regionNames {
		if !slices.ContainsFunc(clusters, func(c unstructured.Unstructured) bool { return c.GetNamespace() == region }) {
			return fmt.Errorf("EtcdCluster %s/%s not found: restart the demo to create it", region, system)
		}
	}
	return nil
}

// replace marks one member of every region for replacement.
func (d *Demo) replace(ctx context.Context) (string, error) {
	d.editing.Lock()
	defer d.editing.Unlock()
	state := d.State()
	var replaced []string
	for _, region := range state.Regions {
		for _, member := range region.Members {
			if member.Removing || member.Phase != "Voter" {
				continue
			}
			if err := d.edit(ctx, region.Name, func(spec map[string]any) error { return markForReplacement(spec, ids(region), member.ID) }); err != nil {
				return "", err
			}
			replaced = append(replaced, member.ID)
			break
		}
	}
	if len(replaced) == 0 {
		return "", errors.New("no voting member found: wait until a member votes")
	}
	return fmt.Sprintf("Replacing %s.", prose.List(replaced)), nil
}

// markForReplacement adds a member to the list in the spec, and removes members that no longer
// exist from it.
func markForReplacement(spec map[string]any, existing []string, id string) error {
	before, _, err := unstructured.NestedStringSlice(spec, "replace")
	if err != nil {
		return err
	}
	marked := slices.DeleteFunc(before, func(old string) bool { return !slices.Contains(existing, old) || old == id })
	return unstructured.SetNestedStringSlice(spec, append(marked, id), "replace")
}

func ids(region view.Region) []string {
	var all []string
	for _, member := range region.Members {
		all = append(all, member.ID)
	}
	return all
}
