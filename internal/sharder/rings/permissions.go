package rings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/roles"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// verbs are the verbs that the sharder needs for the objects of a ring.
var verbs = []string{"list", "patch"}

const (
	// recheckAfter is how long a review without missing permissions is valid, unless a request is forbidden.
	recheckAfter = 10 * time.Minute
	// minRefusedDelay and maxRefusedDelay bound the backoff while permissions are missing.
	minRefusedDelay, maxRefusedDelay = 5 * time.Second, 2 * time.Minute
)

// permissions checks the sharder's permissions for rings: when a ring's resources have changed,
// with backoff while a permission is missing, and seldom otherwise. It keeps one review for each ring.
type permissions struct {
	mu      sync.Mutex
	reviews map[string]*review
}

// reviewKey identifies a review. A different key needs a new review.
type reviewKey struct {
	uid        types.UID
	generation int64
	resources  string // and namespaces of members
}

// review is the last result for a ring.
type review struct {
	reviewKey
	missing  []MissingRule
	at       time.Time
	refusals int // reviews in a row with a missing permission
}

func reviewKeyOf(ring *shardingv1alpha1.ControllerRing, known *catalog.Ring) reviewKey {
	names := make([]string, len(known.Resources))
	for i := range known.Resources {
		names[i] = known.Resources[i].Resource.GroupResource().String()
	}
	slices.Sort(names)
	return reviewKey{
		uid: ring.UID, generation: ring.Generation,
		resources: strings.Join(slices.Concat(names, ring.MemberNamespaces()), " "),
	}
}

// next returns when to review again. forbidden is whether a request for the ring's objects was forbidden.
func (a *review) next(forbidden bool) time.Time {
	if len(a.missing) == 0 && !forbidden {
		return a.at.Add(recheckAfter)
	}
	return a.at.Add(backoff(a.refusals))
}

// backoff is the delay until the next review after a number of reviews in a row that found something missing.
func backoff(refusals int) time.Duration {
	delay := minRefusedDelay
	for i := 1; i < refusals && delay < maxRefusedDelay; i++ {
		delay *= 2
	}
	return min(delay, maxRefusedDelay)
}

// valid reports whether the review can still be used for the key.
func (a *review) valid(q reviewKey, forbidden bool, now time.Time) bool {
	return a != nil && a.reviewKey == q && now.Before(a.next(forbidden))
}

// after returns the review that follows this one, which may be nil.
func (a *review) after(q reviewKey, missing []MissingRule, forbidden bool, now time.Time) *review {
	following := &review{reviewKey: q, missing: missing, at: now}
	if len(missing) > 0 || forbidden {
		following.refusals = 1
		if a != nil && a.reviewKey == q {
			following.refusals += a.refusals
		}
	}
	return following
}

// missing returns the permissions that the sharder lacks for a ring, and if any, when to review again.
func (p *permissions) missing(ctx context.Context, c client.Client, ring *shardingv1alpha1.ControllerRing, known *catalog.Ring, forbidden bool, now time.Time) (rules []MissingRule, recheckAt time.Time, err error) {
	p.mu.Lock()
	last := p.reviews[ring.Name]
	p.mu.Unlock()
	q := reviewKeyOf(ring, known)
	if !last.valid(q, forbidden, now) {
		if rules, err = reviewAccess(ctx, c, ring, known); err != nil {
			return nil, time.Time{}, fmt.Errorf("checking the sharder's permissions: %w", err)
		}
		last = last.after(q, rules, forbidden, now)
		p.mu.Lock()
		if p.reviews == nil {
			p.reviews = map[string]*review{}
		}
		p.reviews[ring.Name] = last
		p.mu.Unlock()
	}
	if len(last.missing) > 0 || forbidden {
		recheckAt = last.next(forbidden)
	}
	return last.missing, recheckAt, nil
}

func (p *permissions) forget(ring string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reviews, ring)
}

// needed returns the rules that the sharder needs for a ring.
func needed(ring *shardingv1alpha1.ControllerRing, known *catalog.Ring) []MissingRule {
	var rules []MissingRule
	for i := range known.Resources {
		rules = append(rules, MissingRule{Resource: known.Resources[i].Resource.GroupResource(), Verbs: verbs})
	}
	webhook, leases := roles.WebhookRule(ring.Name), roles.LeaseRule()
	if len(known.Resources) > 0 {
		rules = append(rules, MissingRule{Resource: ruledResource(webhook), Name: webhook.ResourceNames[0], Verbs: webhook.Verbs})
	}
	namespaces := ring.MemberNamespaces()
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		rules = append(rules, MissingRule{Resource: ruledResource(leases), Namespace: namespace, Verbs: []string{"patch", "delete"}})
	}
	return rules
}

func ruledResource(rule rbacv1.PolicyRule) schema.GroupResource {
	return schema.GroupResource{Group: rule.APIGroups[0], Resource: rule.Resources[0]}
}

// reviewAccess asks the API server which permissions the sharder lacks for a ring.
func reviewAccess(ctx context.Context, c client.Client, ring *shardingv1alpha1.ControllerRing, known *catalog.Ring) ([]MissingRule, error) {
	var rules []MissingRule
	for _, rule := range needed(ring, known) {
		var denied []string
		for _, verb := range rule.Verbs {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: rule.Resource.Group, Resource: rule.Resource.Resource, Namespace: rule.Namespace, Name: rule.Name, Verb: verb,
				},
			}}
			if err := c.Create(ctx, review); err != nil {
				return nil, err
			}
			if !review.Status.Allowed {
				denied = append(denied, verb)
			}
		}
		if len(denied) > 0 {
			rule.Verbs = denied
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

// permitted returns the resources whose objects the sharder can assign: it may list and patch them, and the main
// objects that control them.
func permitted(known *catalog.Ring, missing []MissingRule) []catalog.Resource {
	refused := func(resource schema.GroupResource) bool {
		return slices.ContainsFunc(missing, func(rule MissingRule) bool { return rule.Resource == resource })
	}
	mains := map[catalog.Kind]bool{}
	for i := range known.Resources {
		if resource := &known.Resources[i]; resource.Main() && !refused(resource.Resource.GroupResource()) {
			mains[resource.Kind] = true
		}
	}
	var all []catalog.Resource
	for _, resource := range known.Resources {
		if refused(resource.Resource.GroupResource()) {
			continue
		}
		if !resource.Main() {
			controllers := slices.DeleteFunc(slices.Clone(resource.Controllers), func(kind catalog.Kind) bool { return !mains[kind] })
			if len(controllers) == 0 {
				continue
			}
			resource.Controllers = controllers
		}
		all = append(all, resource)
	}
	return all
}

// isForbidden reports whether an error, or one of the errors that it joins, is Forbidden.
func isForbidden(err error) bool {
	switch wrapped := err.(type) { //nolint:errorlint // it walks the tree itself
	case nil:
		return false
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wrapped.Unwrap(), isForbidden)
	case apierrors.APIStatus:
		return apierrors.IsForbidden(err)
	default:
		return isForbidden(errors.Unwrap(err))
	}
}
