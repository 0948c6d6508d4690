package moves

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// pageSize is how many objects are read at once.
	pageSize = 500
	// attempts is how often a write is tried on an object that others write too.
	attempts = 5
	// fieldManager is the name under which the API server notes our writes.
	fieldManager = "sharder"
)

// pass is one look at all objects of a ring, with one set of members.
type pass struct {
	*Mover
	declared *catalog.Ring
	members  *ring.Ring
	drains   *drains
	began    time.Time

	acted  atomic.Bool // whether anything was written
	mu     sync.Mutex
	counts Counts
	errs   []error
}

// selection is which objects of a resource are looked at.
type selection string

// withoutLiveShard selects what nobody works on. Objects without the label are among them.
func withoutLiveShard(ringName string, members *ring.Ring) selection {
	return selection(shardingv1alpha1.LabelShard(ringName) + " notin (" + strings.Join(members.Members(), ",") + ")")
}

// withLiveShard selects the others.
func withLiveShard(ringName string, members *ring.Ring) selection {
	return selection(shardingv1alpha1.LabelShard(ringName) + " in (" + strings.Join(members.Members(), ",") + ")")
}

// beingDrained selects what shards have been asked to let go.
func beingDrained(ringName string) selection { return selection(shardingv1alpha1.LabelDrain(ringName)) }

// resources calls visit for each resource that is wanted, all at once.
func (p *pass) resources(wanted func(*catalog.Resource) bool, visit func(*catalog.Resource) error) error {
	var group sync.WaitGroup
	errs := make([]error, len(p.declared.Resources))
	for i := range p.declared.Resources {
		resource := &p.declared.Resources[i]
		if wanted(resource) {
			group.Go(func() { errs[i] = visit(resource) })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

func every(*catalog.Resource) bool               { return true }
func main(resource *catalog.Resource) bool       { return resource.Main() }
func controlled(resource *catalog.Resource) bool { return !resource.Main() }

// settle looks at the selected objects of a resource and does what has to be done.
func (p *pass) settle(ctx context.Context, resource *catalog.Resource, selected selection) error {
	var group sync.WaitGroup
	defer group.Wait()
	return p.list(ctx, resource, selected, func(o object, w *witness) error {
		decision := p.decide(ctx, resource, o, w)
		if decision.Action == assignment.Keep {
			p.count(resource, o, o.Shard)
			return nil
		}
		slots := p.slots
		if decision.Action == assignment.Drain {
			slots = p.asking
		}
		if err := slots.take(ctx); err != nil {
			return err
		}
		group.Go(func() {
			defer slots.free()
			err := p.apply(ctx, resource, o, decision)
			shard := o.Shard
			if err == nil && (decision.Action == assignment.Assign || decision.Action == assignment.Move) {
				shard = decision.Shard
			}
			p.count(resource, o, shard)
			if err != nil {
				p.fail(fmt.Errorf("%s %s/%s: %w", resource.Resource.Resource, o.namespace, o.name, err))
			}
		})
		return nil
	})
}

// list reads a resource page by page. With a limit and no resourceVersion a page is consistent and
// comes from the API server's watch cache.
func (p *pass) list(ctx context.Context, resource *catalog.Resource, selected selection, visit func(object, *witness) error) error {
	options := metav1.ListOptions{LabelSelector: string(selected), Limit: pageSize}
	for {
		page, err := p.Metadata.Resource(resource.Resource).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource.Resource.GroupResource(), err)
		}
		seen := p.newWitness()
		namespace, spread := "", true // they come in the order of their namespaces
		for i := range page.Items {
			full := &page.Items[i]
			if full.Namespace != namespace {
				namespace, spread = full.Namespace, !resource.Kind.Namespaced || p.Selects(p.declared, full.Namespace)
			}
			if !spread || full.DeletionTimestamp != nil && len(full.Finalizers) == 0 {
				continue
			}
			if err := visit(reduce(resource, p.declared.Name, full), seen); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// locate finds the shard of a controller, as it is at this moment: the API server's cache may not know yet
// that it has moved, and a child would be sent back to where its controller was.
func (p *pass) locate(ctx context.Context, owner catalog.Owner) string {
	shard, err := p.Mover.locate(ctx, p.declared, owner, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		p.fail(err)
	}
	return shard
}

// apply carries a decision out. When somebody else has written the object meanwhile, it decides
// again, for this object alone.
func (p *pass) apply(ctx context.Context, resource *catalog.Resource, o object, decision assignment.Decision) error {
	client := p.client(resource, o.namespace)
	for range attempts {
		if decision.Action == assignment.Keep {
			return nil
		}
		content, err := patch(p.declared.Name, o.version, decision)
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, o.name, types.MergePatchType, content, metav1.PatchOptions{FieldManager: fieldManager})
		switch {
		case err == nil:
			p.acted.Store(true)
			p.Report(p.declared.Name, resource.Resource.GroupResource(), decision.Action, p.Clock.Now().Sub(p.began))
			if decision.Action == assignment.Drain {
				p.drains.add(o.owner.Key(), o.Shard)
			}
			return nil
		case apierrors.IsNotFound(err):
			return nil // there is nothing left to assign
		case !apierrors.IsConflict(err):
			return fmt.Errorf("%sing: %w", decision.Action, err)
		}
		fresh, err := client.Get(ctx, o.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading it again: %w", err)
		}
		o = reduce(resource, p.declared.Name, fresh)
		decision = p.decide(ctx, resource, o, p.newWitness())
	}
	return fmt.Errorf("somebody else has written it %d times in a row; the next sync tries again", attempts)
}

func (p *pass) client(resource *catalog.Resource, namespace string) metadata.ResourceInterface {
	if resource.Kind.Namespaced {
		return p.Metadata.Resource(resource.Resource).Namespace(namespace)
	}
	return p.Metadata.Resource(resource.Resource)
}

// fail notes an error. A few are enough to know why: all objects may fail for the same reason.
func (p *pass) fail(err error) {
	const enough = 5
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errs) < enough {
		p.errs = append(p.errs, err)
	}
}

// count notes where an object is now.
func (p *pass) count(resource *catalog.Resource, o object, shard string) {
	if shard == o.Shard && resource.Main() && o.Draining && p.members.Has(shard) {
		p.drains.add(o.owner.Key(), shard) // this sharder, another one, or this one before a restart asked for it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.assigned && !p.members.Has(shard) {
		p.counts.Unassigned++
	}
	p.counts.add(resource.Resource.GroupResource(), shard)
}
