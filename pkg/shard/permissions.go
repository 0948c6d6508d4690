package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/inprocess"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// reviewsTimeout is how long all access reviews of a process may take.
const reviewsTimeout = 30 * time.Second

// checkPermissions returns an error if this process lacks a permission to release objects, or to assign
// them if it can be elected the sharder. The error names all missing permissions.
func (s *Shard) checkPermissions(ctx context.Context) error {
	authorization, err := authorizationv1client.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("creating a client for access reviews: %w", err)
	}
	authentication, err := authenticationv1client.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("creating a client for the review of this process's user: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, reviewsTimeout)
	defer cancel()
	check := permissionCheck{Shard: s, reviews: authorization.SelfSubjectAccessReviews(), users: authentication.SelfSubjectReviews()}
	if s.options.Mode.canBeSharder() {
		if err = check.sharder(limited); len(check.missing) > 0 {
			return check.sharderRefusal(limited)
		}
	}
	if s.options.Mode.reconciles() {
		err = errors.Join(err, check.shard(limited))
		if len(check.missing) > 0 {
			return check.shardRefusal()
		}
	}
	if err != nil {
		logf.FromContext(ctx).Info("Failed to check the permissions of this process", "error", err.Error())
	}
	return nil
}

// permissionCheck collects the permissions without which this process must not start.
type permissionCheck struct {
	*Shard
	reviews authorizationv1client.SelfSubjectAccessReviewInterface
	users   authenticationv1client.SelfSubjectReviewInterface
	missing []string // such as "list, watch configmaps in all namespaces"
}

// sharderRefusal returns the error for missing permissions to assign objects. Its command has no double
// quotes, which the log of the error would escape.
func (c *permissionCheck) sharderRefusal(ctx context.Context) error {
	ring, err := c.ringManifest()
	if err != nil {
		return err
	}
	return fmt.Errorf("missing permissions: %s. Without them this process could not assign objects when it is elected the sharder. "+
		"Use an external sharder, or grant them: echo '%s' | ringmaster role -f - --shard %s/%s --in-process | kubectl apply -f -",
		strings.Join(c.missing, "; "), ring, c.options.Namespace, c.serviceAccount(ctx))
}

// shardRefusal returns the error for missing permissions to release objects.
func (c *permissionCheck) shardRefusal() error {
	return fmt.Errorf("missing permissions: %s. Without them this shard could never release an object: add the verb patch to its role",
		strings.Join(c.missing, "; "))
}

// ringManifest returns a ControllerRing in one line of YAML, from which the role of this process is made.
func (c *permissionCheck) ringManifest() (string, error) {
	resources, err := c.resources()
	if err != nil {
		return "", err
	}
	var all []string
	for _, main := range resources {
		described := inYAML(main.GroupResource)
		if len(main.ControlledResources) > 0 {
			var children []string
			for _, child := range main.ControlledResources {
				children = append(children, "{"+inYAML(child)+"}")
			}
			described += ", controlledResources: [" + strings.Join(children, ", ") + "]"
		}
		all = append(all, "{"+described+"}")
	}
	selector, err := c.namespaceSelector()
	if err != nil {
		return "", err
	}
	namespaces := ""
	if !inprocess.OnlyNames(selector) {
		namespaces = ", namespaceSelector: {}" // adds the permission to read the labels of namespaces
	}
	return fmt.Sprintf("{apiVersion: %s, kind: ControllerRing, metadata: {name: %s}, spec: {resources: [%s]%s}}",
		shardingv1alpha1.SchemeGroupVersion, c.Ring(), strings.Join(all, ", "), namespaces), nil
}

func inYAML(resource shardingv1alpha1.GroupResource) string {
	if resource.Group == "" {
		return "resource: " + resource.Resource
	}
	return "group: " + resource.Group + ", resource: " + resource.Resource
}

// boundPod returns the name of the pod that this process's token is bound to, "none" if it is bound to none, or "" if
// that is not known.
func (s *Shard) boundPod(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, s.options.times().RequestTimeout())
	defer cancel()
	authentication, err := authenticationv1client.NewForConfig(s.config)
	if err != nil {
		return ""
	}
	review, err := authentication.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		logf.FromContext(ctx).Info("Failed to find out which pod the token of this process is bound to", "error", err.Error())
		return ""
	}
	if pod := review.Status.UserInfo.Extra[podNameExtra]; len(pod) > 0 {
		return pod[0]
	}
	return "none"
}

// podNameExtra is the extra of a user whose token is bound to a pod.
const podNameExtra = "authentication.kubernetes.io/pod-name"

// serviceAccount returns the name of this process's ServiceAccount, or a placeholder that 'ringmaster
// role' refuses.
func (c *permissionCheck) serviceAccount(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, c.options.times().RequestTimeout())
	defer cancel()
	review, err := c.users.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil {
		// Roles for a ServiceAccount in another namespace than the Leases have to be written by hand.
		if name, ok := strings.CutPrefix(review.Status.UserInfo.Username, "system:serviceaccount:"+c.options.Namespace+":"); ok {
			return name
		}
	}
	return "SERVICEACCOUNT"
}

// sharder checks the permissions to assign objects. The in-process sharder lists and watches in all
// namespaces at once, wherever its objects are.
func (c *permissionCheck) sharder(ctx context.Context) error {
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	// It patches the Leases of the shards, and deletes those of dead ones.
	err := c.require(ctx, leases, c.options.Namespace, " in the namespace "+c.options.Namespace, "list", "watch", "patch", "delete")
	if err != nil {
		return err
	}
	selector, err := c.namespaceSelector()
	if err != nil {
		return err
	}
	if !inprocess.OnlyNames(selector) { // it waits for the labels of the namespaces before it assigns any object
		if err := c.require(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), "", "", "list", "watch"); err != nil {
			return err
		}
	}
	for _, main := range c.owned.MainKinds() {
		verbs := []string{"list", "watch", "patch"}
		for _, kind := range append([]*ownership.Kind{main}, main.Controlled...) {
			mapping, err := c.mapping(kind)
			if err != nil {
				return err
			}
			where := " in all namespaces"
			if mapping.Scope.Name() == meta.RESTScopeNameRoot {
				where = ""
			}
			if err := c.require(ctx, mapping.Resource, "", where, verbs...); err != nil {
				return err
			}
			verbs = []string{"list", "patch"} // children are not watched
		}
	}
	return nil
}

// require adds the verbs that this process may not use on a resource to the missing permissions.
func (c *permissionCheck) require(ctx context.Context, resource schema.GroupVersionResource, namespace, where string, verbs ...string) error {
	var missing []string
	for _, verb := range verbs {
		allowed, err := c.allowed(ctx, verb, resource, namespace)
		if err != nil {
			return err
		}
		if !allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) > 0 {
		c.addMissing(strings.Join(missing, ", ") + " " + resource.GroupResource().String() + where)
	}
	return nil
}

// addMissing adds a missing permission. Several main kinds may have the same children.
func (c *permissionCheck) addMissing(permission string) {
	if !slices.Contains(c.missing, permission) {
		c.missing = append(c.missing, permission)
	}
}

// shard checks the permissions to release objects. The sharder moves children that the shard may not
// patch.
func (c *permissionCheck) shard(ctx context.Context) error {
	log := logf.FromContext(ctx)
	for _, main := range c.owned.MainKinds() {
		missing, everywhere, err := c.mayNotPatch(ctx, main)
		switch {
		case err != nil:
			return err
		case missing != "" && everywhere: // the shard may have the permission in the namespaces that the ring selects
			log.Info("Missing permission in some or all namespaces: patch. Objects there cannot be released; add the verb patch to the shard's role", "resource", missing)
		case missing != "":
			c.addMissing("patch " + missing)
		}
		for _, controlled := range main.Controlled {
			if missing, _, err = c.mayNotPatch(ctx, controlled); err == nil && missing != "" {
				log.Info("Missing permission: patch. The sharder has to move these children, which takes longer; add the verb patch to the shard's role", "resource", missing)
			}
		}
	}
	return nil
}

// mayNotPatch returns the resource of a kind, and the namespaces in which this shard may not patch it, of
// those that its caches watch. everywhere is true if they watch all namespaces.
func (c *permissionCheck) mayNotPatch(ctx context.Context, kind *ownership.Kind) (missing string, everywhere bool, err error) {
	mapping, err := c.mapping(kind)
	if err != nil {
		return "", false, err
	}
	var namespaces []string
	for _, namespace := range c.cache.namespacesOf(kind.Watched[0], mapping.Scope) {
		allowed, err := c.allowed(ctx, "patch", mapping.Resource, namespace)
		if err != nil {
			return "", false, err
		}
		if !allowed {
			namespaces = append(namespaces, namespace)
		}
	}
	resource := mapping.Resource.GroupResource().String()
	switch {
	case len(namespaces) == 0:
		return "", false, nil
	case namespaces[0] == "":
		return resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
	case len(namespaces) == 1:
		return resource + " in the namespace " + namespaces[0], false, nil
	}
	return resource + " in the namespaces " + strings.Join(namespaces, ", "), false, nil
}

func (c *permissionCheck) allowed(ctx context.Context, verb string, resource schema.GroupVersionResource, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.times().RequestTimeout())
	defer cancel()
	review, err := c.reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Namespace: namespace,
		}},
	}, metav1.CreateOptions{})
	return err == nil && review.Status.Allowed, err
}
