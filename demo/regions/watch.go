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

// watch starts watches, and returns when all existing objects were observed.
func (d *Demo) watch(ctx context.Context) error {
	known := runtime.NewScheme()
	if err := eventsv1.AddToScheme(known); err != nil {
		return err
	}
	namespaces := map[string]cache.Config{}
	for _, region := range regionNames {
		namespaces[region] = cache.Config{}
	}
	watching, err := cache.New(d.Plane.RESTConfig(), cache.Options{Scheme: known, DefaultNamespaces: namespaces})
	if err != nil {
		return fmt.Errorf("preparing to watch the cluster: %w", err)
	}
	d.background.Go(func() { _ = watching.Start(d.ctx) }) // on failure the informers below do not sync
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(kind)
	changed := func(any) { d.change() }
	for object, handler := range map[client.Object]toolscache.ResourceEventHandler{
		cluster: toolscache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
		},
		&eventsv1.Event{}: toolscache.ResourceEventHandlerDetailedFuncs{AddFunc: d.event},
	} {
		informer, err := watching.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watching the cluster: %w", err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching the cluster: %w", err)
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("watching the cluster: %w", context.Cause(ctx))
		}
	}
	d.cache = watching
	return nil
}

// event records an event of an operator. It skips events that existed before the watch.
func (d *Demo) event(object any, old bool) {
	event, ok := object.(*eventsv1.Event)
	if !ok || old || event.Regarding.Kind != kind.Kind || event.Regarding.Name != d.system {
		return
	}
	d.recordEvent(operatorOf(event.Regarding.Namespace), event.Note, event.Type == corev1.EventTypeWarning)
}

// clusters returns the EtcdClusters of the demo's system, ordered by region.
func (d *Demo) clusters(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := d.cache.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing EtcdClusters: %w", err)
	}
	return clustersOf(list.Items, d.system), nil
}

// clustersOf returns the EtcdClusters of a system, ordered by region. Members of other systems,
// which users may create, are neither shown nor replaced, and are not endpoints of this system.
func clustersOf(all []unstructured.Unstructured, system string) []unstructured.Unstructured {
	clusters := slices.DeleteFunc(all, func(cluster unstructured.Unstructured) bool { return cluster.GetName() != system })
	slices.SortFunc(clusters, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetNamespace(), b.GetNamespace()) })
	return clusters
}

// member is the state of a member as its agent reports it.
type member struct {
	ID      string            `json:"id"`
	Applied map[string]string `json:"applied"`
	Running bool              `json:"running"`
	PID     int               `json:"pid"`
	Since   time.Time         `json:"since"`
}

// pollAgents polls the agents for their members until ctx ends.
func (d *Demo) pollAgents(ctx context.Context) {
	const interval = 500 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		all := map[string]member{}
		for _, region := range regionNames {
			members, err := fetchMembers(ctx, d.addresses[region])
			if err != nil {
				continue // the table of processes shows that the agent does not run
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

// fetchMembers returns the members of an agent.
func fetchMembers(ctx context.Context, address string) (members []member, err error) {
	const timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/members", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&members)
	return members, err
}

// setCoordination records the summary of the coordination records.
func (d *Demo) setCoordination(summary coordinationstatus.Summary) {
	d.mu.Lock()
	d.coordinationState = summary
	d.mu.Unlock()
	d.change()
}
