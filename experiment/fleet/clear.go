package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// ownLabels are the labels of all objects that an experiment creates for its users.
var ownLabels = client.MatchingLabels{labelOwn: "true"}

const labelOwn = "ringmaster-experiment"

// checkUnused returns an error if the sample operator, a sharder or Websites are in the cluster: an experiment would disturb them.
func (f *Fleet) checkUnused(ctx context.Context) error {
	for namespace, name := range map[string]string{Namespace: "the sample operator", shardingv1alpha1.NamespaceSystem: "a sharder"} {
		leases, err := f.cluster.Clientset.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing Leases: %w", err)
		}
		for _, lease := range leases.Items {
			if isHeld(&lease, time.Now()) {
				return fmt.Errorf("%s already runs in this cluster (Lease %s/%s): stop it, or choose another cluster", name, namespace, lease.Name)
			}
		}
	}
	websites := &webhostingv1alpha1.WebsiteList{}
	err := f.cluster.Client.List(ctx, websites, client.Limit(1))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // the CRD is not installed yet
	}
	if err != nil {
		return fmt.Errorf("listing Websites: %w", err)
	}
	if len(websites.Items) > 0 {
		return fmt.Errorf("the cluster already has Websites, such as %s: choose a cluster without Websites", client.ObjectKeyFromObject(&websites.Items[0]))
	}
	return nil
}

// isHeld reports whether a Lease is held and has not expired.
func isHeld(lease *coordinationv1.Lease, now time.Time) bool {
	holder, renewed, seconds := lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds
	return holder != nil && *holder != "" && renewed != nil && seconds != nil && now.Before(renewed.Add(time.Duration(*seconds)*time.Second))
}

// Clear deletes the Websites with their children, and the ring, and waits until they are gone. CRDs and roles stay.
func (f *Fleet) Clear(ctx context.Context) error {
	themes := &webhostingv1alpha1.ThemeList{}
	namespaces := &corev1.NamespaceList{}
	if err := errors.Join(f.cluster.Client.List(ctx, themes, ownLabels), f.cluster.Client.List(ctx, namespaces, ownLabels)); err != nil {
		return fmt.Errorf("listing the objects of the experiment: %w", err)
	}
	var objects []client.Object
	for i := range namespaces.Items {
		objects = append(objects, &namespaces.Items[i])
	}
	for i := range themes.Items {
		objects = append(objects, &themes.Items[i])
	}
	for _, object := range objects {
		if err := client.IgnoreNotFound(f.cluster.Client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("deleting the objects of the experiment: %w", err)
		}
	}
	if err := cluster.WaitFor(ctx, "the namespaces of the experiment to be deleted", func(ctx context.Context) (bool, error) {
		err := f.cluster.Client.List(ctx, namespaces, ownLabels)
		return len(namespaces.Items) == 0, err
	}); err != nil || f.options.Setup != External {
		return err
	}
	return errors.Join(f.clearRing(ctx), f.clearMetricsReader(ctx))
}

// clearMetricsReader deletes the ServiceAccount that reads the sharder's metrics, and its binding.
func (f *Fleet) clearMetricsReader(ctx context.Context) error {
	err := errors.Join(
		client.IgnoreNotFound(f.cluster.Clientset.RbacV1().ClusterRoleBindings().Delete(ctx, readerBinding, metav1.DeleteOptions{})),
		client.IgnoreNotFound(f.cluster.Clientset.CoreV1().ServiceAccounts(Namespace).Delete(ctx, readerName, metav1.DeleteOptions{})),
	)
	if err != nil {
		return fmt.Errorf("deleting the metrics reader: %w", err)
	}
	return nil
}

// clearRing deletes the ring, and waits until its webhook configuration is gone, because the sharder stops next.
func (f *Fleet) clearRing(ctx context.Context) error {
	ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: Ring}}
	if err := client.IgnoreNotFound(f.cluster.Client.Delete(ctx, ring)); err != nil {
		return fmt.Errorf("deleting the ring: %w", err)
	}
	return cluster.WaitFor(ctx, "the webhook configuration of the ring to be deleted", func(ctx context.Context) (bool, error) {
		_, err := f.cluster.Clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, shardingv1alpha1.WebhookConfigurationName(Ring), metav1.GetOptions{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
