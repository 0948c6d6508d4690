package moves

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// pageSize is the maximum number of objects in a page.
	pageSize = 500
	// readTimeout bounds the read of a page or an object.
	readTimeout = 15 * time.Second
)

// selection is a label selector.
type selection string

// withoutOwner selects the unassigned and orphaned objects of a main resource, and the orphaned objects of a controlled
// resource. Unlabelled objects of a controlled kind are mostly not in the ring; a sweep lists them.
func withoutOwner(resource *catalog.Resource, ringName string, members *ring.Ring) selection {
	orphaned := shardingv1alpha1.LabelShard(ringName) + " notin (" + strings.Join(members.Members(), ",") + ")"
	if resource.Main() {
		return selection(orphaned)
	}
	return selection(shardingv1alpha1.LabelShard(ringName) + "," + orphaned)
}

// withOwner selects the objects whose owner is a member.
func withOwner(ringName string, members *ring.Ring) selection {
	return selection(shardingv1alpha1.LabelShard(ringName) + " in (" + strings.Join(members.Members(), ",") + ")")
}

// unlabelled selects the objects without a shard label.
func unlabelled(ringName string) selection {
	return selection("!" + shardingv1alpha1.LabelShard(ringName))
}

// draining selects the objects that are being drained.
func draining(ringName string) selection { return selection(shardingv1alpha1.LabelDrain(ringName)) }

// list reads a resource page by page. With a limit and no resourceVersion a page is consistent and comes from the API
// server's watch cache.
func (p *pass) list(ctx context.Context, resource *catalog.Resource, selected selection, visit func(object, *liveness) error) error {
	if p.namespaces == nil || !resource.Kind.Namespaced {
		return p.listFrom(ctx, p.Metadata.Resource(resource.Resource), resource, selected, visit)
	}
	for _, namespace := range p.namespaces {
		if err := p.listFrom(ctx, p.Metadata.Resource(resource.Resource).Namespace(namespace), resource, selected, visit); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) listFrom(ctx context.Context, client metadata.ResourceInterface, resource *catalog.Resource, selected selection, visit func(object, *liveness) error) error {
	options := metav1.ListOptions{LabelSelector: string(selected), Limit: pageSize}
	for {
		page, err := listPage(ctx, client, options)
		if token := resumeToken(err); token != "" && token != options.Continue {
			// The snapshot of the previous pages has expired. The rest comes from a newer one: an object that has changed
			// since may be missed or listed twice, and the next pass finds it.
			options.Continue = token
			continue
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource.Resource.GroupResource(), err)
		}
		p.pages.Add(1)
		live := p.newLiveness()
		namespace, selects := "", true // objects are ordered by namespace
		for i := range page.Items {
			full := &page.Items[i]
			if full.Namespace != namespace {
				namespace, selects = full.Namespace, !resource.Kind.Namespaced || p.Selects(p.declared, full.Namespace)
			}
			if !selects || full.DeletionTimestamp != nil && len(full.Finalizers) == 0 {
				continue
			}
			if err := visit(reduce(resource, p.declared.Name, full), live); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

func listPage(ctx context.Context, client metadata.ResourceInterface, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return client.List(ctx, options)
}

// resumeToken returns the token with which to continue a list that took longer than the API server keeps old versions.
func resumeToken(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsResourceExpired(err) {
		return status.ErrStatus.Continue
	}
	return ""
}

// read reads the current version of an object. It is a list, because roles for other implementations grant no get.
func (m *Mover) read(ctx context.Context, resource *catalog.Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	return m.readWith(ctx, resource, namespace, name, metav1.ListOptions{})
}

func (m *Mover) readWith(ctx context.Context, resource *catalog.Resource, namespace, name string, options metav1.ListOptions) (*metav1.PartialObjectMetadata, error) {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	found, err := listPage(ctx, m.client(resource, namespace), options)
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		if found.Items[i].Name == name {
			return &found.Items[i], nil
		}
	}
	return nil, apierrors.NewNotFound(resource.Resource.GroupResource(), name)
}

func (m *Mover) client(resource *catalog.Resource, namespace string) metadata.ResourceInterface {
	if resource.Kind.Namespaced {
		return m.Metadata.Resource(resource.Resource).Namespace(namespace)
	}
	return m.Metadata.Resource(resource.Resource)
}

// locate returns the owner of an object of a main resource.
func (m *Mover) locate(ctx context.Context, declared *catalog.Ring, owner catalog.MainObject, options metav1.ListOptions) (string, error) {
	for i := range declared.Resources {
		resource := &declared.Resources[i]
		if !resource.Main() || resource.Kind != owner.Kind {
			continue
		}
		found, err := m.readWith(ctx, resource, owner.Namespace, owner.Name, options)
		if err != nil {
			return "", fmt.Errorf("locating the controller %s %s/%s: %w", owner.Kind.Kind, owner.Namespace, owner.Name, err)
		}
		return found.Labels[shardingv1alpha1.LabelShard(declared.Name)], nil
	}
	return "", fmt.Errorf("locating the controller %s %s/%s: %w", owner.Kind.Kind, owner.Namespace, owner.Name, errNotMain)
}
