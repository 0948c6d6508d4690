package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// maxPods is the number of pods of a ring that are read to find the ServiceAccounts of its shards.
const maxPods = 20

func (g *gatherer) election(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := g.core.CoordinationV1().Leases(g.SharderNamespace).Get(ctx, electionName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

func (g *gatherer) sharderPods(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := g.core.CoreV1().Pods(g.SharderNamespace).List(ctx, metav1.ListOptions{LabelSelector: sharderSelector, Limit: pageSize})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// accounts finds the ServiceAccounts of the sharder and of the shards.
func (g *gatherer) accounts(ctx context.Context, f *Facts, rings []*ring) {
	calls := []func(){func() { g.findSharder(ctx, f) }}
	f.ShardAccounts = map[string]Read[[]types.NamespacedName]{}
	var mu sync.Mutex
	for _, r := range rings {
		calls = append(calls, func() {
			found := Read[[]types.NamespacedName]{Value: g.ShardAccounts}
			if len(g.ShardAccounts) == 0 {
				found = read(ctx, func(ctx context.Context) ([]types.NamespacedName, error) { return g.shardAccounts(ctx, r) })
			}
			mu.Lock()
			defer mu.Unlock()
			f.ShardAccounts[r.name] = found
		})
	}
	g.all(calls...)
}

// findSharder finds the ServiceAccount of the sharder: that of a pod with its label, or of the pod that
// holds the Lease of its election.
func (g *gatherer) findSharder(ctx context.Context, f *Facts) {
	if f.Sharder.Account != nil {
		return
	}
	for i := range f.Sharder.Pods.Value {
		f.Sharder.Account = accountOf(&f.Sharder.Pods.Value[i])
		return
	}
	if election := f.Sharder.Election.Value; election != nil {
		// The identity is the name of the host, which is that of the pod, and a random part.
		identity := holder(election)
		if end := strings.LastIndex(identity, "_"); end > 0 {
			if pod, err := g.core.CoreV1().Pods(g.SharderNamespace).Get(ctx, identity[:end], metav1.GetOptions{}); err == nil {
				f.Sharder.Account = accountOf(pod)
			}
		}
	}
}

// shardAccounts returns the ServiceAccounts of the pods that have the names of the ring's Leases.
func (g *gatherer) shardAccounts(ctx context.Context, r *ring) (accounts []types.NamespacedName, err error) {
	shards := r.available()
	for _, s := range shards[:min(len(shards), maxPods)] {
		pod, err := g.core.CoreV1().Pods(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if account := *accountOf(pod); !slices.Contains(accounts, account) {
			accounts = append(accounts, account)
		}
	}
	return accounts, nil
}

func accountOf(pod *corev1.Pod) *types.NamespacedName {
	name := pod.Spec.ServiceAccountName
	if name == "" {
		name = "default"
	}
	return &types.NamespacedName{Namespace: pod.Namespace, Name: name}
}

// access asks the API server for the permissions of ServiceAccounts. After an error it asks nothing more.
func (g *gatherer) access(ctx context.Context, questions []Question) Read[[]Access] {
	answers := make([]Access, len(questions))
	var mu sync.Mutex
	var failed error
	var calls []func()
	for i, question := range questions {
		calls = append(calls, func() {
			mu.Lock()
			stop := failed != nil
			mu.Unlock()
			if stop {
				return
			}
			allowed, err := g.ask(ctx, question)
			answers[i] = Access{question, allowed}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = explain(ctx, err)
			}
		})
	}
	g.all(calls...)
	if failed != nil {
		return Read[[]Access]{Err: failed}
	}
	return Read[[]Access]{Value: answers}
}

// accessInNamespaces asks again, in each namespace that the ring selects, what shards may not do in all namespaces.
func (g *gatherer) accessInNamespaces(ctx context.Context, f *Facts) {
	asked := f.inNamespaces()
	if !f.Access.known() || len(asked) == 0 {
		return
	}
	answers := g.access(ctx, slices.Concat(slices.Collect(maps.Values(asked))...))
	if !answers.known() {
		f.Access.Err = answers.Err
		return
	}
	allowed := map[Question]bool{}
	for _, answer := range answers.Value {
		allowed[answer.Question] = answer.Allowed
	}
	for i, questions := range asked {
		f.Access.Value[i].Allowed = !slices.ContainsFunc(questions, func(q Question) bool { return !allowed[q] })
	}
}

func (g *gatherer) ask(ctx context.Context, q Question) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + q.Account.Namespace + ":" + q.Account.Name,
		// As the API server authenticates ServiceAccounts.
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + q.Account.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.Verb, Group: q.Group, Resource: q.Resource, Subresource: q.Subresource, Namespace: q.Namespace, Name: q.Name,
		},
	}}
	answer, err := g.core.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// served reads which resources the API server serves. Groups of extension servers that are down are noted.
func (g *gatherer) served(ctx context.Context) (Served, error) {
	found := Served{Resources: map[schema.GroupResource]ServedResource{}, Failed: map[string]error{}}
	_, lists, err := g.core.Discovery().ServerGroupsAndResourcesWithContext(ctx)
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); errors.As(err, &failed) {
		for version, err := range failed.Groups {
			found.Failed[version.Group] = err
		}
	} else if err != nil {
		return found, err
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			key := schema.GroupResource{Group: version.Group, Resource: resource.Name}
			if _, known := found.Resources[key]; known { // in a version that the API server prefers
				continue
			}
			found.Resources[key] = ServedResource{GroupVersionKind: version.WithKind(resource.Kind), Namespaced: resource.Namespaced}
		}
	}
	return found, nil
}
