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

// indexTheme finds Websites by their Theme.
const indexTheme = "spec.theme"

func themeOf(object client.Object) []string {
	website, is := object.(*webhostingv1alpha1.Website)
	if !is {
		return nil
	}
	return []string{website.Spec.Theme}
}

// websitesOf are the Websites that use a Theme, as far as they are this instance's.
func (r *reconciler) websitesOf(ctx context.Context, theme client.Object) []reconcile.Request {
	websites := &webhostingv1alpha1.WebsiteList{}
	// Only names are taken from them, so there is no need to copy each.
	err := r.List(ctx, websites, client.MatchingFields{indexTheme: theme.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		// It is read from the cache, which has no reason to fail but a wrong program.
		logf.FromContext(ctx).Error(err, "Finding the Websites of a Theme", "theme", theme.GetName())
		return nil
	}
	requests := make([]reconcile.Request, 0, len(websites.Items))
	for i := range websites.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&websites.Items[i])})
	}
	return requests
}

// websiteChanged lets news of Websites pass that may change what is to be done, and changes of
// annotations, with which load tests ask for a reconcile. Our own writes of the status are no news.
var websiteChanged = predicate.Or[client.Object](
	predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
)

// What is news of the objects of a Website: all that somebody else should not have done. A resync, which
// brings the same object again, is none: who has failed tries again by itself.
var (
	configMapChanged = changed(func(before, after *corev1.ConfigMap) bool {
		return !equality.Semantic.DeepEqual(before.Data, after.Data) || len(before.BinaryData)+len(after.BinaryData) > 0
	})
	serviceChanged = changed(func(before, after *corev1.Service) bool {
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
	})
	ingressChanged    = changed(func(before, after *networkingv1.Ingress) bool { return before.Generation != after.Generation })
	deploymentChanged = changed(func(before, after *appsv1.Deployment) bool {
		return before.Generation != after.Generation || judge(before) != judge(after)
	})
)

// changed lets updates pass that change what is told of, or whose an object is. That an object has come or
// gone is always news.
func changed[T client.Object](news func(before, after T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, is := e.ObjectOld.(T)
		after, was := e.ObjectNew.(T)
		if !is || !was {
			return false
		}
		return before.GetUID() != after.GetUID() ||
			!equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
			!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
			news(before, after)
	}}
}
