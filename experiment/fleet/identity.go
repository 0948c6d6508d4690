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

// life is how long a token lasts: longer than any experiment.
const life = 24 * time.Hour

// token is one for a ServiceAccount.
func token(ctx context.Context, clientset kubernetes.Interface, namespace, account string) (string, error) {
	seconds := int64(life / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of %s: %w", account, err)
	}
	return answer.Status.Token, nil
}

// identify gives a process the identity of a ServiceAccount, and returns what it has to find in its environment.
func (f *Fleet) identify(ctx context.Context, name, namespace, account string) ([]string, error) {
	given, err := token(ctx, f.stage.Clientset, namespace, account)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(f.stage.ProcessDir(name), "kubeconfig")
	if err := writeKubeconfig(path, f.options.Config, given); err != nil {
		return nil, err
	}
	// With a UID, a process that is restarted under its name need not wait until the Lease of the earlier one has expired.
	return []string{"KUBECONFIG=" + path, "POD_NAME=" + name, "POD_NAMESPACE=" + namespace, "POD_UID=" + name}, nil
}

// writeKubeconfig writes one for the same cluster and somebody else.
func writeKubeconfig(path string, config *rest.Config, token string) error {
	const one = "experiment"
	made := clientcmdapi.NewConfig()
	made.Clusters[one] = &clientcmdapi.Cluster{
		Server: config.Host, TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
		CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
	}
	made.AuthInfos[one] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts[one] = &clientcmdapi.Context{Cluster: one, AuthInfo: one}
	made.CurrentContext = one
	if err := clientcmd.WriteToFile(*made, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}
