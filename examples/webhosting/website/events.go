package website

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// indexTheme is the index of Websites by Theme.
const indexTheme = "spec.theme"

func themeOf(object client.Object) []string {
	website, ok := object.(*webhostingv1alpha1.Website)
	if !ok {
		return nil
	}
	return []string{website.Spec.Theme}
}

// websitesOf returns requests for the Websites that use a Theme and belong to this instance.
func (r *reconciler) websitesOf(ctx context.Context, theme client.Object) []reconcile.Request {
	websites := &webhostingv1alpha1.WebsiteList{}
	// Only the names are used, so the objects need not be copied.
	err := r.List(ctx, websites, client.MatchingFields{indexTheme: theme.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		// A read from the cache fails only because of a programming error.
		logf.FromContext(ctx).Error(err, "Failed to list the Websites of a Theme", "theme", theme.GetName())
		return nil
	}
	requests := make([]reconcile.Request, 0, len(websites.Items))
	for i := range websites.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&websites.Items[i])})
	}
	return requests
}

// websiteChanged ignores updates of the status, which are our own. Changes of annotations pass,
// because load tests trigger reconciles with them.
var websiteChanged = predicate.Or[client.Object](
	predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
)

// The predicates for children pass updates that may require a reconcile. They ignore resyncs,
// because failed reconciles are retried anyway.
var (
	configMapChanged = changed(func(before, after *corev1.ConfigMap) bool {
		return !equality.Semantic.DeepEqual(before.Data, after.Data) || len(before.BinaryData)+len(after.BinaryData) > 0
	})
	serviceChanged = changed(func(before, after *corev1.Service) bool {
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
	})
	ingressChanged    = changed(func(before, after *networkingv1.Ingress) bool { return before.Generation != after.Generation })
	deploymentChanged = changed(func(before, after *appsv1.Deployment) bool {
		return before.Generation != after.Generation || workloadResult(before) != workloadResult(after)
	})
)

// changed returns a predicate that passes updates of the UID, labels or owners, and those for which
// differs returns true. Creations and deletions always pass.
func changed[T client.Object](differs func(before, after T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(T)
		after, okAfter := e.ObjectNew.(T)
		if !okBefore || !okAfter {
			return false
		}
		return before.GetUID() != after.GetUID() ||
			!equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
			!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
			differs(before, after)
	}}
}
