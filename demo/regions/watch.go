package regions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
)

// watch begins to look at the regions, and returns when all that is there was seen.
func (d *Demo) watch(ctx context.Context) error {
	known := runtime.NewScheme()
	if err := eventsv1.AddToScheme(known); err != nil {
		return err
	}
	spaces := map[string]cache.Config{}
	for _, region := range names {
		spaces[region] = cache.Config{}
	}
	looking, err := cache.New(d.Plane.RESTConfig(), cache.Options{Scheme: known, DefaultNamespaces: spaces})
	if err != nil {
		return fmt.Errorf("preparing to look at the cluster: %w", err)
	}
	d.background.Go(func() { _ = looking.Start(d.ctx) }) // it fails only before it has begun, and then nothing syncs
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(kind)
	changed := func(any) { d.change() }
	for object, handler := range map[client.Object]toolscache.ResourceEventHandler{
		cluster: toolscache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
		},
		&eventsv1.Event{}: toolscache.ResourceEventHandlerDetailedFuncs{AddFunc: d.event},
	} {
		informer, err := looking.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("looking at the cluster: %w", err)
		}
		seen, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("looking at the cluster: %w", err)
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), seen.HasSynced) {
			return fmt.Errorf("looking at the cluster: %w", context.Cause(ctx))
		}
	}
	d.seen = looking
	return nil
}

// event passes on what an operator says. What was there before is no news.
func (d *Demo) event(object any, old bool) {
	event, is := object.(*eventsv1.Event)
	if !is || old || event.Regarding.Kind != kind.Kind || event.Regarding.Name != d.system {
		return
	}
	d.tell(operatorOf(event.Regarding.Namespace), event.Note, event.Type == corev1.EventTypeWarning)
}

// clusters are the EtcdClusters of the demo's system in all regions, in order.
func (d *Demo) clusters(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := d.seen.List(ctx, list); err != nil {
		return nil, fmt.Errorf("looking at the regions: %w", err)
	}
	return clustersOf(list.Items, d.system), nil
}

// clustersOf selects the EtcdClusters of a system, ordered by region. Those that somebody has created beside them are of other
// systems: their members are neither shown nor replaced, and no client of this system is sent to them.
func clustersOf(all []unstructured.Unstructured, system string) []unstructured.Unstructured {
	clusters := slices.DeleteFunc(all, func(cluster unstructured.Unstructured) bool { return cluster.GetName() != system })
	slices.SortFunc(clusters, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetNamespace(), b.GetNamespace()) })
	return clusters
}

// member is what an agent says of one.
type member struct {
	ID      string            `json:"id"`
	Applied map[string]string `json:"applied"`
	Running bool              `json:"running"`
	PID     int               `json:"pid"`
	Since   time.Time         `json:"since"`
}

// pollAgents asks the agents again and again what they run, until ctx ends.
func (d *Demo) pollAgents(ctx context.Context) {
	const interval = 500 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		all := map[string]member{}
		for _, region := range names {
			members, err := ask(ctx, d.addresses[region])
			if err != nil {
				continue // it is not there: the table of processes says so
			}
			for _, m := range members {
				all[m.ID] = m
			}
		}
		d.mu.Lock()
		d.processes = all
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ask asks an agent.
func ask(ctx context.Context, address string) (members []member, err error) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/members", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(answer.Body).Decode(&members)
	return members, err
}

// agreed notes what the operators agree on.
func (d *Demo) agreed(now coordinationstatus.Summary) {
	d.mu.Lock()
	d.agreement = now
	d.mu.Unlock()
	d.change()
}
