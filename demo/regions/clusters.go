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
)

// kind is that of what each region has.
var kind = schema.GroupVersionKind{Group: "etcdcluster.timebertt.dev", Version: "v1alpha1", Kind: "EtcdCluster"}

// sample is the EtcdCluster that the example brings along for a region.
func sample(region string) (*unstructured.Unstructured, error) {
	objects, err := manifest.Read(etcdcluster.Files, "samples/"+region+"/etcdcluster.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the samples: %w", err)
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("reading the samples: there are %d objects of %s", len(objects), region)
	}
	return objects[0], nil
}

// systemName returns the name of the demo's system, which is that of its EtcdClusters.
func systemName() (string, error) {
	object, err := sample(names[0])
	if err != nil {
		return "", err
	}
	return object.GetName(), nil
}

// create makes the EtcdCluster of a region. Of one that is there from an earlier run it changes only the mode: what
// somebody has changed stays.
func (d *Demo) create(ctx context.Context, region, seed string) error {
	object, err := sample(region)
	if err != nil {
		return err
	}
	spec, is := object.Object["spec"].(map[string]any)
	if !is {
		return fmt.Errorf("the sample of %s has no spec", region)
	}
	// The sample's addresses are for agents with ports that are chosen by hand.
	delete(spec, "seeds")
	if seed != "" {
		spec["seeds"] = []any{seed}
	}
	err = errors.Join(
		unstructured.SetNestedField(spec, d.options.Mode, "automationOptions", "synchronizationMode"),
		unstructured.SetNestedField(spec, quiet.String(), "automationOptions", "quietWindow"))
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

// edit changes the spec of a region, at the version that it was read at.
func (d *Demo) edit(ctx context.Context, region string, change func(spec map[string]any) error) error {
	object, err := sample(region)
	if err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := d.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		spec, is := object.Object["spec"].(map[string]any)
		if !is {
			return errors.New("it has no spec")
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

// argument is one that members have to be restarted for, and that does nothing that anybody notices.
const argument = "snapshot-count"

// restart gives all members another argument.
func (d *Demo) restart(ctx context.Context) (string, error) {
	d.editing.Lock()
	defer d.editing.Unlock()
	highest := int64(10_000) // which is etcd's own
	clusters, err := d.clusters(ctx)
	if err != nil {
		return "", err
	}
	if err := complete(clusters, d.system); err != nil {
		return "", err
	}
	for i := range clusters {
		value, _, _ := unstructured.NestedString(clusters[i].Object, "spec", "args", argument)
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			highest = max(highest, number)
		}
	}
	value := strconv.FormatInt(highest+1000, 10)
	for _, region := range names {
		if err := d.edit(ctx, region, func(spec map[string]any) error {
			return unstructured.SetNestedField(spec, value, "args", argument)
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("All members are to have --%s=%s, and have to be restarted for it.", argument, value), nil
}

// complete returns an error if a region has no EtcdCluster: a change is made in all regions or in none.
func complete(clusters []unstructured.Unstructured, system string) error {
	for _, region := range names {
		if !slices.ContainsFunc(clusters, func(c unstructured.Unstructured) bool { return c.GetNamespace() == region }) {
			return fmt.Errorf("the EtcdCluster %s of %s is missing: start the demo again to create it", system, region)
		}
	}
	return nil
}

// replace gives up one member of every region.
func (d *Demo) replace(ctx context.Context) (string, error) {
	d.editing.Lock()
	defer d.editing.Unlock()
	state := d.State()
	var going []string
	for _, region := range state.Regions {
		for _, member := range region.Members {
			if member.Removing || member.Phase != "Voter" {
				continue
			}
			if err := d.edit(ctx, region.Name, func(spec map[string]any) error { return giveUp(spec, ids(region), member.ID) }); err != nil {
				return "", err
			}
			going = append(going, member.ID)
			break
		}
	}
	if len(going) == 0 {
		return "", errors.New("there is no member that could be replaced: wait until some vote")
	}
	return fmt.Sprintf("To be replaced: %v.", going), nil
}

// giveUp adds a member to those that have to go, and forgets those that have gone.
func giveUp(spec map[string]any, there []string, id string) error {
	before, _, err := unstructured.NestedStringSlice(spec, "replace")
	if err != nil {
		return err
	}
	going := slices.DeleteFunc(before, func(old string) bool { return !slices.Contains(there, old) || old == id })
	return unstructured.SetNestedStringSlice(spec, append(going, id), "replace")
}

func ids(region view.Region) []string {
	var all []string
	for _, member := range region.Members {
		all = append(all, member.ID)
	}
	return all
}
