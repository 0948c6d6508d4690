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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// verbs are what the sharder does with the objects of a ring.
var verbs = []string{"list", "patch"}

const (
	// askAgainAfter is how long an answer without a refusal is good for, if no write is refused meanwhile.
	askAgainAfter = 10 * time.Minute
	// minRefusedDelay and maxRefusedDelay bound the backoff while something is refused.
	minRefusedDelay, maxRefusedDelay = 5 * time.Second, 2 * time.Minute
)

// permissions knows what the sharder may do with the objects of rings. It asks when a ring's resources have
// changed, with backoff while something is refused, and seldom otherwise. It holds one answer for each ring that
// there is.
type permissions struct {
	mu      sync.Mutex
	answers map[string]*answer
}

// question is what an answer is for. It is asked again when the ring is another one, or its resources are.
type question struct {
	uid        types.UID
	generation int64
	resources  string
}

// answer is what the API server said last.
type answer struct {
	question
	missing  []MissingRule
	at       time.Time
	refusals int // answers in a row with something refused
}

func questionOf(ring *shardingv1alpha1.ControllerRing, known *catalog.Ring) question {
	names := make([]string, len(known.Resources))
	for i := range known.Resources {
		names[i] = known.Resources[i].Resource.GroupResource().String()
	}
	slices.Sort(names)
	return question{uid: ring.UID, generation: ring.Generation, resources: strings.Join(names, " ")}
}

// next is when to ask again. Forbidden is whether a request for the ring's objects has been refused.
func (a *answer) next(forbidden bool) time.Time {
	if len(a.missing) == 0 && !forbidden {
		return a.at.Add(askAgainAfter)
	}
	delay := minRefusedDelay
	for i := 1; i < a.refusals && delay < maxRefusedDelay; i++ {
		delay *= 2
	}
	return a.at.Add(min(delay, maxRefusedDelay))
}

// good is whether the answer is still one to this question.
func (a *answer) good(q question, forbidden bool, now time.Time) bool {
	return a != nil && a.question == q && now.Before(a.next(forbidden))
}

// after is the answer that follows this one, which may be nil.
func (a *answer) after(q question, missing []MissingRule, forbidden bool, now time.Time) *answer {
	following := &answer{question: q, missing: missing, at: now}
	if len(missing) > 0 || forbidden {
		following.refusals = 1
		if a != nil && a.question == q {
			following.refusals += a.refusals
		}
	}
	return following
}

// missing returns what the sharder may not do with the ring's objects, and when to ask again if anything is refused.
func (p *permissions) missing(ctx context.Context, c client.Client, ring *shardingv1alpha1.ControllerRing, known *catalog.Ring, forbidden bool, now time.Time) (rules []MissingRule, again time.Time, err error) {
	p.mu.Lock()
	last := p.answers[ring.Name]
	p.mu.Unlock()
	q := questionOf(ring, known)
	if !last.good(q, forbidden, now) {
		if rules, err = ask(ctx, c, known); err != nil {
			return nil, time.Time{}, fmt.Errorf("checking the sharder's permissions: %w", err)
		}
		last = last.after(q, rules, forbidden, now)
		p.mu.Lock()
		if p.answers == nil {
			p.answers = map[string]*answer{}
		}
		p.answers[ring.Name] = last
		p.mu.Unlock()
	}
	if len(last.missing) > 0 || forbidden {
		again = last.next(forbidden)
	}
	return last.missing, again, nil
}

func (p *permissions) forget(ring string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.answers, ring)
}

// ask asks the API server what the sharder may not do with the ring's objects.
func ask(ctx context.Context, c client.Client, known *catalog.Ring) ([]MissingRule, error) {
	var rules []MissingRule
	for i := range known.Resources {
		resource := known.Resources[i].Resource.GroupResource()
		var denied []string
		for _, verb := range verbs {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: resource.Group, Resource: resource.Resource, Verb: verb},
			}}
			if err := c.Create(ctx, review); err != nil {
				return nil, err
			}
			if !review.Status.Allowed {
				denied = append(denied, verb)
			}
		}
		if len(denied) > 0 {
			rules = append(rules, MissingRule{Resource: resource, Verbs: denied})
		}
	}
	return rules, nil
}

// permitted are the resources that the sharder can assign objects of: it may list and patch them, and the main
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

// isForbidden is whether an API server has refused one of the requests that failed. An error can join several.
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
