package v1alpha1

import (
	"cmp"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// component is the name of the sharder, of its Service and of its Lease.
const component = "sharder"

func addDefaults(scheme *runtime.Scheme) error {
	scheme.AddTypeDefaultingFunc(&SharderConfig{}, func(object any) { SetDefaults(object.(*SharderConfig)) })
	return nil
}

// SetDefaults sets the defaults of all fields that are not set.
func SetDefaults(config *SharderConfig) {
	config.ClientConnection = cmp.Or(config.ClientConnection, &componentbaseconfigv1alpha1.ClientConnectionConfiguration{})
	// Client-side rate limits would only slow down moves: the API server has priority and fairness.
	config.ClientConnection.QPS = cmp.Or(config.ClientConnection.QPS, -1)

	config.LeaderElection = cmp.Or(config.LeaderElection, &componentbaseconfigv1alpha1.LeaderElectionConfiguration{})
	defaultElection(config.LeaderElection)

	config.Debugging = cmp.Or(config.Debugging, &componentbaseconfigv1alpha1.DebuggingConfiguration{})
	config.Debugging.EnableProfiling = cmp.Or(config.Debugging.EnableProfiling, new(bool))
	config.Debugging.EnableContentionProfiling = cmp.Or(config.Debugging.EnableContentionProfiling, new(bool))

	config.Health.BindAddress = cmp.Or(config.Health.BindAddress, ":8081")
	config.Metrics.BindAddress = cmp.Or(config.Metrics.BindAddress, ":8080")
	config.GracefulShutDown = cmp.Or(config.GracefulShutDown, &metav1.Duration{Duration: 15 * time.Second})

	config.Controller.Sharder = cmp.Or(config.Controller.Sharder, &SharderController{})
	config.Controller.Sharder.SyncPeriod = cmp.Or(config.Controller.Sharder.SyncPeriod, &metav1.Duration{Duration: 5 * time.Minute})
	config.Controller.Sharder.ConcurrentMoves = cmp.Or(config.Controller.Sharder.ConcurrentMoves, new(int32(100)))
	defaultWebhook(&config.Webhook)
}

func defaultElection(election *componentbaseconfigv1alpha1.LeaderElectionConfiguration) {
	election.LeaderElect = cmp.Or(election.LeaderElect, new(true))
	election.ResourceLock = cmp.Or(election.ResourceLock, "leases")
	election.ResourceName = cmp.Or(election.ResourceName, component)
	election.ResourceNamespace = cmp.Or(election.ResourceNamespace, shardingv1alpha1.NamespaceSystem)
	election.LeaseDuration.Duration = cmp.Or(election.LeaseDuration.Duration, 15*time.Second)
	election.RenewDeadline.Duration = cmp.Or(election.RenewDeadline.Duration, 10*time.Second)
	election.RetryPeriod.Duration = cmp.Or(election.RetryPeriod.Duration, 2*time.Second)
}

func defaultWebhook(webhook *Webhook) {
	webhook.Server.CertName = cmp.Or(webhook.Server.CertName, new(corev1.TLSCertKey))
	webhook.Server.KeyName = cmp.Or(webhook.Server.KeyName, new(corev1.TLSPrivateKeyKey))
	webhook.Config.ClientConfig = cmp.Or(webhook.Config.ClientConfig, &admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: shardingv1alpha1.NamespaceSystem, Name: component},
	})
	webhook.Config.NamespaceSelector = cmp.Or(webhook.Config.NamespaceSelector, shardingv1alpha1.DefaultNamespaceSelector())
}
