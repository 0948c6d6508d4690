package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLifetime is longer than any experiment.
const tokenLifetime = 24 * time.Hour

// token returns a token of a ServiceAccount.
func token(ctx context.Context, clientset kubernetes.Interface, namespace, account string) (string, error) {
	seconds := int64(tokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	response, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for the ServiceAccount %s: %w", account, err)
	}
	return response.Status.Token, nil
}

// identify writes a kubeconfig with a token of a ServiceAccount, and returns the environment of a process with that identity.
func (f *Fleet) identify(ctx context.Context, name, namespace, account string) ([]string, error) {
	credential, err := token(ctx, f.cluster.Clientset, namespace, account)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(f.cluster.ProcessDir(name), "kubeconfig")
	if err := writeKubeconfig(path, f.options.Config, credential); err != nil {
		return nil, err
	}
	// With a UID, a process that restarts with its name does not wait until the Lease of the previous one expires.
	return []string{"KUBECONFIG=" + path, "POD_NAME=" + name, "POD_NAMESPACE=" + namespace, "POD_UID=" + name}, nil
}

// writeKubeconfig writes a kubeconfig for the cluster of a config with another token.
func writeKubeconfig(path string, config *rest.Config, token string) error {
	const name = "experiment"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server: config.Host, TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
		CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
	}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return fmt.Errorf("writing the kubeconfig %s: %w", path, err)
	}
	return nil
}
