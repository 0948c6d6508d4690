package app

import (
	"crypto/x509"
	"net"
	"net/url"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
)

const off = "0" // the bind address that disables an endpoint

// validate returns all errors of a configuration at once, so that users can fix them in one go.
func validate(config *configv1alpha1.SharderConfig) (errs field.ErrorList) {
	sharder := field.NewPath("controller", "sharder")
	if moves := *config.Controller.Sharder.ConcurrentMoves; moves < 1 {
		errs = append(errs, field.Invalid(sharder.Child("concurrentMoves"), moves, "must be at least 1"))
	}
	errs = append(errs, positive(sharder.Child("syncPeriod"), config.Controller.Sharder.SyncPeriod.Duration)...)
	if limit := config.GracefulShutDown.Duration; limit < 0 {
		errs = append(errs, field.Invalid(field.NewPath("gracefulShutDown"), limit.String(), "must not be negative"))
	}
	errs = append(errs, validateAddress(field.NewPath("health", "bindAddress"), config.Health.BindAddress)...)
	errs = append(errs, validateAddress(field.NewPath("metrics", "bindAddress"), config.Metrics.BindAddress)...)
	if *config.Debugging.EnableProfiling && config.Metrics.BindAddress == off {
		errs = append(errs, field.Invalid(field.NewPath("debugging", "enableProfiling"), true, "requires metrics.bindAddress, where profiles are served"))
	}
	errs = append(errs, validateElection(field.NewPath("leaderElection"), config.LeaderElection)...)
	return append(errs, validateWebhook(field.NewPath("webhook", "config"), &config.Webhook.Config)...)
}

func positive(path *field.Path, duration time.Duration) field.ErrorList {
	if duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, duration.String(), "must be positive, such as 5m")}
}

func validateAddress(path *field.Path, address string) field.ErrorList {
	if address == off {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path, address, `must be host:port, or :port for all addresses, or "0" to disable the endpoint`)}
	}
	return nil
}

// validateElection finds errors that the leader election would only report when it starts.
func validateElection(path *field.Path, election *componentbaseconfigv1alpha1.LeaderElectionConfiguration) (errs field.ErrorList) {
	if !*election.LeaderElect {
		return nil
	}
	if election.ResourceLock != "leases" {
		errs = append(errs, field.NotSupported(path.Child("resourceLock"), election.ResourceLock, []string{"leases"}))
	}
	lease, deadline, retry := election.LeaseDuration.Duration, election.RenewDeadline.Duration, election.RetryPeriod.Duration
	errs = append(errs, positive(path.Child("retryPeriod"), retry)...)
	if deadline <= retry*6/5 { // the election adds up to a fifth, so that replicas do not retry at once
		errs = append(errs, field.Invalid(path.Child("renewDeadline"), deadline.String(), "must be more than 1.2 times the retryPeriod"))
	}
	if lease <= deadline {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), lease.String(), "must be longer than the renewDeadline"))
	}
	if lease%time.Second != 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), lease.String(), "must be whole seconds, because a Lease stores its duration in seconds"))
	}
	return errs
}

func validateWebhook(path *field.Path, config *configv1alpha1.WebhookConfig) (errs field.ErrorList) {
	if _, err := metav1.LabelSelectorAsSelector(config.NamespaceSelector); err != nil {
		errs = append(errs, field.Invalid(path.Child("namespaceSelector"), config.NamespaceSelector, err.Error()))
	}
	path = path.Child("clientConfig")
	client := config.ClientConfig
	if (client.URL == nil) == (client.Service == nil) {
		errs = append(errs, field.Invalid(path, "", "must have either a url or a service"))
	}
	if client.URL != nil {
		errs = append(errs, validateURL(path.Child("url"), *client.URL)...)
	}
	if client.Service != nil {
		errs = append(errs, validateService(path.Child("service"), client.Service)...)
	}
	if len(client.CABundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(client.CABundle) {
		errs = append(errs, field.Invalid(path.Child("caBundle"), "(not shown)", "must be base64-encoded certificates in PEM format"))
	}
	return errs
}

// validateURL is as strict as API servers, which otherwise reject every webhook configuration.
func validateURL(path *field.Path, text string) (errs field.ErrorList) {
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		errs = append(errs, field.Invalid(path, text, err.Error()))
	case parsed.Scheme != "https":
		errs = append(errs, field.Invalid(path, text, "must begin with https://, because API servers call webhooks only over HTTPS"))
	case parsed.Hostname() == "":
		errs = append(errs, field.Invalid(path, text, "must name a host"))
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		errs = append(errs, field.Invalid(path, text, "must have no user, query or fragment"))
	}
	return errs
}

func validateService(path *field.Path, service *admissionregistrationv1.ServiceReference) (errs field.ErrorList) {
	if service.Name == "" || service.Namespace == "" {
		errs = append(errs, field.Invalid(path, service.Namespace+"/"+service.Name, "must have a namespace and a name"))
	}
	if service.Path != nil {
		errs = append(errs, field.Forbidden(path.Child("path"), "the sharder adds the path of each ring"))
	}
	if port := service.Port; port != nil && (*port < 1 || *port > 65535) {
		errs = append(errs, field.Invalid(path.Child("port"), *port, "must be between 1 and 65535"))
	}
	return errs
}
