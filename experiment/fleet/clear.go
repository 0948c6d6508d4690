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
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
)

// mine is on what an experiment makes for its users, and nobody else has made.
var mine = client.MatchingLabels{labelMine: "true"}

const labelMine = "ringmaster-experiment"

// vacant tells why an experiment would disturb others, or they it.
func (f *Fleet) vacant(ctx context.Context) error {
	for namespace, who := range map[string]string{Namespace: "the sample operator", shardingv1alpha1.NamespaceSystem: "a sharder"} {
		leases, err := f.stage.Clientset.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("looking who is there: %w", err)
		}
		for _, lease := range leases.Items {
			if held(&lease, time.Now()) {
				return fmt.Errorf("%s runs in this cluster already (Lease %s/%s): end it before, or choose another cluster", who, namespace, lease.Name)
			}
		}
	}
	websites := &webhostingv1alpha1.WebsiteList{}
	err := f.stage.Client.List(ctx, websites, client.Limit(1))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // the kind is not known yet
	}
	if err != nil {
		return fmt.Errorf("looking what is there: %w", err)
	}
	if len(websites.Items) > 0 {
		return fmt.Errorf("there are Websites in this cluster already, such as %s: an experiment needs one without", client.ObjectKeyFromObject(&websites.Items[0]))
	}
	return nil
}

// held tells whether somebody holds a Lease, as far as clocks agree.
func held(lease *coordinationv1.Lease, now time.Time) bool {
	holder, renewed, seconds := lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds
	return holder != nil && *holder != "" && renewed != nil && seconds != nil && now.Before(renewed.Add(time.Duration(*seconds)*time.Second))
}

// Clear removes the Websites, with all that is theirs, and the ring, and waits until they are gone. Kinds and roles stay.
func (f *Fleet) Clear(ctx context.Context) error {
	themes := &webhostingv1alpha1.ThemeList{}
	namespaces := &corev1.NamespaceList{}
	if err := errors.Join(f.stage.Client.List(ctx, themes, mine), f.stage.Client.List(ctx, namespaces, mine)); err != nil {
		return fmt.Errorf("looking what is left: %w", err)
	}
	var objects []client.Object
	for i := range namespaces.Items {
		objects = append(objects, &namespaces.Items[i])
	}
	for i := range themes.Items {
		objects = append(objects, &themes.Items[i])
	}
	for _, object := range objects {
		if err := client.IgnoreNotFound(f.stage.Client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("removing what is left: %w", err)
		}
	}
	if err := cluster.WaitFor(ctx, "the users' namespaces to be gone", func(ctx context.Context) (bool, error) {
		err := f.stage.Client.List(ctx, namespaces, mine)
		return len(namespaces.Items) == 0, err
	}); err != nil || f.options.Setup != External {
		return err
	}
	return errors.Join(f.clearRing(ctx), f.clearReader(ctx))
}

// clearReader removes who has read the sharder's metrics.
func (f *Fleet) clearReader(ctx context.Context) error {
	err := errors.Join(
		client.IgnoreNotFound(f.stage.Clientset.RbacV1().ClusterRoleBindings().Delete(ctx, readerBinding, metav1.DeleteOptions{})),
		client.IgnoreNotFound(f.stage.Clientset.CoreV1().ServiceAccounts(Namespace).Delete(ctx, readerName, metav1.DeleteOptions{})),
	)
	if err != nil {
		return fmt.Errorf("removing who has read metrics: %w", err)
	}
	return nil
}

// clearRing removes the ring, and waits until its webhook is gone: nobody answers it any more.
func (f *Fleet) clearRing(ctx context.Context) error {
	ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: Ring}}
	if err := client.IgnoreNotFound(f.stage.Client.Delete(ctx, ring)); err != nil {
		return fmt.Errorf("removing the ring: %w", err)
	}
	return cluster.WaitFor(ctx, "the ring's webhook to be gone", func(ctx context.Context) (bool, error) {
		_, err := f.stage.Clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, shardingv1alpha1.WebhookConfigurationName(Ring), metav1.GetOptions{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
