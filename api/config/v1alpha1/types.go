package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
)

// SharderConfig is the configuration of the sharder. Everything has a default.
//
// +kubebuilder:object:root=true
type SharderConfig struct {
	metav1.TypeMeta `json:",inline"`

	// ClientConnection says how to reach the API server.
	// +optional
	ClientConnection *componentbaseconfigv1alpha1.ClientConnectionConfiguration `json:"clientConnection,omitempty"`
	// LeaderElection is the election among the replicas. One leads, all serve the webhook.
	// +optional
	LeaderElection *componentbaseconfigv1alpha1.LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	// Debugging turns profiling on.
	// +optional
	Debugging *componentbaseconfigv1alpha1.DebuggingConfiguration `json:"debugging,omitempty"`
	// Health is where health and readiness are served.
	// +optional
	Health HealthEndpoint `json:"health,omitempty"`
	// Metrics is where metrics are served.
	// +optional
	Metrics MetricsEndpoint `json:"metrics,omitempty"`
	// GracefulShutDown is how long the sharder may take to end.
	// +optional
	GracefulShutDown *metav1.Duration `json:"gracefulShutDown,omitempty"`
	// Controller configures the controllers.
	// +optional
	Controller Controller `json:"controller,omitempty"`
	// Webhook configures the webhook.
	// +optional
	Webhook Webhook `json:"webhook,omitempty"`
}

// HealthEndpoint is where health and readiness are served.
type HealthEndpoint struct {
	// BindAddress is the address, :8081 by default. "0" turns it off.
	// +optional
	BindAddress string `json:"bindAddress,omitempty"`
}

// MetricsEndpoint is where metrics are served.
type MetricsEndpoint struct {
	// BindAddress is the address, :8080 by default. "0" turns it off.
	// +optional
	BindAddress string `json:"bindAddress,omitempty"`
}

// Controller configures the controllers.
type Controller struct {
	// Sharder configures the controller that assigns and moves objects.
	// +optional
	Sharder *SharderController `json:"sharder,omitempty"`
}

// SharderController configures the controller that assigns and moves objects.
type SharderController struct {
	// SyncPeriod is how often all objects are looked at although nothing seems to have changed, 5m
	// by default.
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// ConcurrentMoves is how many objects are written at the same time, 100 by default.
	// +optional
	ConcurrentMoves *int32 `json:"concurrentMoves,omitempty"`
}

// Webhook configures the webhook.
type Webhook struct {
	// Server configures what the sharder serves.
	// +optional
	Server WebhookServer `json:"server,omitempty"`
	// Config configures what API servers are told of it.
	// +optional
	Config WebhookConfig `json:"config,omitempty"`
}

// WebhookServer configures what the sharder serves.
type WebhookServer struct {
	// CertDir is a folder with a certificate and its key, which something else keeps valid. Without
	// one, the sharder makes and renews its own.
	// +optional
	CertDir *string `json:"certDir,omitempty"`
	// CertName is the name of the certificate in it, tls.crt by default.
	// +optional
	CertName *string `json:"certName,omitempty"`
	// KeyName is the name of the key in it, tls.key by default.
	// +optional
	KeyName *string `json:"keyName,omitempty"`
}

// WebhookConfig configures what API servers are told of the webhook.
type WebhookConfig struct {
	// Annotations are added to every webhook configuration, for example for cert-manager.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// ClientConfig says how API servers reach the webhook. By default that is through the Service
	// sharding-system/sharder. The path is added to it.
	// +optional
	ClientConfig *admissionregistrationv1.WebhookClientConfig `json:"clientConfig,omitempty"`
	// NamespaceSelector is that of rings which have none of their own. By default it leaves out
	// kube-system and sharding-system.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}
