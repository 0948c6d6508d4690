package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ringmaster-project/ringmaster/internal/pki"
)

const (
	// administrators is the group with all permissions.
	administrators = "system:masters"
	// serviceAccountKey signs the tokens of ServiceAccounts.
	serviceAccountKey = "service-account.key"
)

// writeIdentities writes all certificates, keys and kubeconfigs. Only the authority and the key of the
// tokens stay the same over restarts.
func (cp *ControlPlane) writeIdentities(options Options) error {
	for name, identity := range options.certificates() {
		pair, err := cp.authority.Issue(identity)
		if err != nil {
			return err
		}
		if err := pair.Write(cp.path("pki", name)); err != nil {
			return fmt.Errorf("writing the certificate %s: %w", name, err)
		}
	}
	if err := cp.keepTokenKey(); err != nil {
		return err
	}
	for _, name := range []string{ControllerManager, Scheduler} {
		if err := cp.WriteKubeconfig(cp.kubeconfigPath(name), pki.Identity{User: "system:" + name}); err != nil {
			return err
		}
	}
	var err error
	if cp.admin, err = cp.authority.Issue(pki.Identity{User: "ringmaster-admin", Groups: []string{administrators}}); err != nil {
		return err
	}
	cp.Kubeconfig = cp.path("kubeconfig")
	return cp.writeKubeconfig(cp.Kubeconfig, clientcmdapi.AuthInfo{
		ClientCertificateData: cp.admin.Certificate, ClientKeyData: cp.admin.Key,
	})
}

// keepTokenKey creates the key of the tokens if it does not exist: tokens stay valid over restarts.
func (cp *ControlPlane) keepTokenKey() error {
	path := cp.path("pki", serviceAccountKey)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := pki.NewKey()
	if err != nil {
		return err
	}
	return pki.WriteFile(path, key)
}

// RESTConfig returns the client configuration of the administrator.
func (cp *ControlPlane) RESTConfig() *rest.Config {
	config := cp.anonymous()
	config.CertData, config.KeyData = cp.admin.Certificate, cp.admin.Key
	return config
}

// TokenRESTConfig returns a client configuration with a bearer token.
func (cp *ControlPlane) TokenRESTConfig(token string) *rest.Config {
	config := cp.anonymous()
	config.BearerToken = token
	return config
}

func (cp *ControlPlane) anonymous() *rest.Config {
	return &rest.Config{
		Host:            cp.url,
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.authority.Certificate()},
		QPS:             -1, // the API server has priority and fairness
	}
}

// WriteKubeconfig writes a kubeconfig with a new certificate for the identity.
func (cp *ControlPlane) WriteKubeconfig(path string, identity pki.Identity) error {
	pair, err := cp.authority.Issue(identity)
	if err != nil {
		return err
	}
	return cp.writeKubeconfig(path, clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key})
}

// WriteTokenKubeconfig writes a kubeconfig with the token in tokenFile. The server is the URL of this
// control plane, or of a proxy.
func (cp *ControlPlane) WriteTokenKubeconfig(path, tokenFile, server string) error {
	return cp.writeKubeconfigTo(server, path, clientcmdapi.AuthInfo{TokenFile: tokenFile})
}

func (cp *ControlPlane) writeKubeconfig(path string, user clientcmdapi.AuthInfo) error {
	return cp.writeKubeconfigTo(cp.url, path, user)
}

func (cp *ControlPlane) writeKubeconfigTo(server, path string, user clientcmdapi.AuthInfo) error {
	const name = "ringmaster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: cp.authority.Certificate()}
	config.AuthInfos[name] = &user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// Issue issues a certificate of this control plane's authority.
func (cp *ControlPlane) Issue(identity pki.Identity) (pki.Pair, error) {
	return cp.authority.Issue(identity)
}

// URL returns the URL of the API server.
func (cp *ControlPlane) URL() string { return cp.url }

// EtcdURL returns the URL of etcd, which requires a certificate from Issue.
func (cp *ControlPlane) EtcdURL() string { return cp.etcdURL }

// CAFile returns the path of the authority's certificate.
func (cp *ControlPlane) CAFile() string { return cp.path("pki", "ca.crt") }

func (cp *ControlPlane) kubeconfigPath(name string) string { return cp.path("kubeconfigs", name) }
