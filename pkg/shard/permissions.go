package shard

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// checkPermissions asks whether this shard may patch what it shards. Without that it would own objects that it can never
// release; a child is then left to the sharder to move.
func (s *Shard) checkPermissions(ctx context.Context) error {
	reviews, err := authorizationv1client.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("making a client for access reviews: %w", err)
	}
	log := logf.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.options.times().RequestTimeout())
	defer cancel()
	for _, main := range s.owned.Main() {
		missing, everywhere, err := s.mayNotPatch(ctx, reviews, main)
		switch {
		case err != nil:
			log.Info("Could not check the permissions of this shard", "error", err.Error())
			return nil
		case missing != "" && everywhere: // it may have the permission in some namespaces, and the ring may select only these
			log.Info("Missing permission in some or all namespaces: patch. Objects there cannot be released; add the verb patch to the shard's role", "resource", missing)
		case missing != "":
			return fmt.Errorf("missing permission: patch %s, without which this shard could never release an object; add the verb patch to its role", missing)
		}
		for _, controlled := range main.Controlled {
			if missing, _, err = s.mayNotPatch(ctx, reviews, controlled); err == nil && missing != "" {
				log.Info("Missing permission: patch. The sharder has to move these children, which takes longer; add the verb patch to the shard's role", "resource", missing)
			}
		}
	}
	return nil
}

// mayNotPatch returns the resource of a kind if this shard may not patch it in one of the namespaces that its caches watch.
// Everywhere is whether they watch all of them.
func (s *Shard) mayNotPatch(ctx context.Context, reviews authorizationv1client.SelfSubjectAccessReviewsGetter, kind *ownership.Kind) (missing string, everywhere bool, err error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return "", false, fmt.Errorf("looking up the kind %s: %w", kind.Kind, err)
	}
	for _, namespace := range s.cache.namespacesOf(kind.Watched[0], mapping.Scope) {
		review, err := reviews.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "patch", Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource, Namespace: namespace,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", false, err
		}
		if !review.Status.Allowed {
			missing = mapping.Resource.GroupResource().String()
			if namespace != "" {
				missing += " in the namespace " + namespace
			}
			return missing, namespace == "" && mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
		}
	}
	return "", false, nil
}
