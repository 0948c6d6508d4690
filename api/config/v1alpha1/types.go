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

	// ClientConnection configures the connection to the API server.
	// +optional
	ClientConnection *componentbaseconfigv1alpha1.ClientConnectionConfiguration `json:"clientConnection,omitempty"`
	// LeaderElection configures the leader election among the replicas. The leader moves objects; all
	// replicas serve the webhook.
	// +optional
	LeaderElection *componentbaseconfigv1alpha1.LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	// Debugging enables profiling.
	// +optional
	Debugging *componentbaseconfigv1alpha1.DebuggingConfiguration `json:"debugging,omitempty"`
	// Health configures the endpoint of the health and readiness probes.
	// +optional
	Health HealthEndpoint `json:"health,omitempty"`
	// Metrics configures the endpoint of the metrics.
	// +optional
	Metrics MetricsEndpoint `json:"metrics,omitempty"`
	// GracefulShutDown is the maximum duration of a graceful shutdown, 15s by default.
	// +optional
	GracefulShutDown *metav1.Duration `json:"gracefulShutDown,omitempty"`
	// Controller configures the controllers.
	// +optional
	Controller Controller `json:"controller,omitempty"`
	// Webhook configures the webhook.
	// +optional
	Webhook Webhook `json:"webhook,omitempty"`
}

// HealthEndpoint configures the endpoint of the health and readiness probes.
type HealthEndpoint struct {
	// BindAddress is the address to listen on, :8081 by default. "0" disables the endpoint.
	// +optional
	BindAddress string `json:"bindAddress,omitempty"`
}

// MetricsEndpoint configures the endpoint of the metrics.
type MetricsEndpoint struct {
	// BindAddress is the address to listen on, :8080 by default. "0" disables the endpoint.
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
	// SyncPeriod is the time between two resyncs if nothing changes, 5m by default.
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// ConcurrentMoves is the maximum number of objects that are written at the same time, 100 by default.
	// +optional
	ConcurrentMoves *int32 `json:"concurrentMoves,omitempty"`
}

// Webhook configures the webhook.
type Webhook struct {
	// Server configures the webhook server.
	// +optional
	Server WebhookServer `json:"server,omitempty"`
	// Config configures the MutatingWebhookConfigurations of rings.
	// +optional
	Config WebhookConfig `json:"config,omitempty"`
}

// WebhookServer configures the webhook server.
type WebhookServer struct {
	// CertDir is a directory with a certificate and its key that something else renews, such as
	// cert-manager. Without it, the sharder issues and renews its own certificate.
	// +optional
	CertDir *string `json:"certDir,omitempty"`
	// CertName is the file name of the certificate in certDir, tls.crt by default.
	// +optional
	CertName *string `json:"certName,omitempty"`
	// KeyName is the file name of the key in certDir, tls.key by default.
	// +optional
	KeyName *string `json:"keyName,omitempty"`
	// ClientCAFile is a file with the authorities of the client certificates that API servers present. With it, the
	// webhook accepts only clients with such a certificate. API servers present one if their --admission-control-config-file
	// names a kubeconfig with it for MutatingAdmissionWebhook. By default, the webhook accepts every client.
	// +optional
	ClientCAFile *string `json:"clientCAFile,omitempty"`
}

// WebhookConfig configures the MutatingWebhookConfigurations of rings.
type WebhookConfig struct {
	// Annotations are added to every webhook configuration, for example for cert-manager.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// ClientConfig defines how API servers reach the webhook, by default through the Service
	// sharding-system/sharder. The sharder adds the path.
	// +optional
	ClientConfig *admissionregistrationv1.WebhookClientConfig `json:"clientConfig,omitempty"`
	// NamespaceSelector is the selector of rings without a spec.namespaceSelector. By default it excludes
	// kube-system and sharding-system.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}
