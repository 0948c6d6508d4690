package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/ringmaster-project/ringmaster/internal/pki"
)

// serviceRange is the range of the addresses of Services. serviceIP is the first of them, which is the
// API server's in the cluster.
const (
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
)

// makeComponents creates the components.
func (cp *ControlPlane) makeComponents(options Options) error {
	client, err := cp.httpClient()
	if err != nil {
		return err
	}
	component := func(name, health string, args []string) *Component {
		return &Component{spec: cp.spec(options, name, args), health: health, client: client, failed: cp.failed}
	}
	local := func(name string) string {
		return fmt.Sprintf("https://127.0.0.1:%d/healthz", cp.ports.number(name))
	}
	cp.Etcd = component(Etcd, cp.etcdURL+"/readyz", cp.etcdArgs(options))
	cp.APIServer = component(APIServer, cp.url+"/readyz", cp.apiServerArgs(options))
	if options.ControllerManager {
		cp.ControllerManager = component(ControllerManager, local(ControllerManager), cp.controllerManagerArgs())
	}
	if options.Scheduler {
		cp.Scheduler = component(Scheduler, local(Scheduler), cp.clientArgs(Scheduler))
	}
	return nil
}

// httpClient returns a client for the health endpoints of the components.
func (cp *ControlPlane) httpClient() (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cp.authority.Certificate()) {
		return nil, errors.New("reading the authority's certificate: invalid PEM")
	}
	certificate, err := tls.X509KeyPair(cp.admin.Certificate, cp.admin.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
		// Do not reuse connections to a component that was paused or restarted.
		DisableKeepAlives: true,
	}}, nil
}

func (cp *ControlPlane) etcdArgs(options Options) []string {
	peer := fmt.Sprintf("https://127.0.0.1:%d", cp.ports.number(etcdPeer))
	args := []string{
		"--name=default",
		"--data-dir=" + cp.path("etcd"),
		"--listen-client-urls=" + cp.etcdURL,
		"--advertise-client-urls=" + cp.etcdURL,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--client-cert-auth",
		"--trusted-ca-file=" + cp.path("pki", "ca.crt"),
		"--cert-file=" + cp.path("pki", "etcd.crt"),
		"--key-file=" + cp.path("pki", "etcd.key"),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + cp.path("pki", "ca.crt"),
		"--peer-cert-file=" + cp.path("pki", "etcd.crt"),
		"--peer-key-file=" + cp.path("pki", "etcd.key"),
		"--quota-backend-bytes=" + strconv.Itoa(8<<30),
	}
	if !options.Durable {
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func (cp *ControlPlane) apiServerArgs(options Options) []string {
	args := []string{
		"--bind-address=" + options.BindAddress,
		"--advertise-address=" + options.AdvertiseAddress,
		"--secure-port=" + strconv.Itoa(cp.ports.number(APIServer)),
		"--tls-cert-file=" + cp.path("pki", "apiserver.crt"),
		"--tls-private-key-file=" + cp.path("pki", "apiserver.key"),
		"--client-ca-file=" + cp.path("pki", "ca.crt"),
		"--etcd-servers=" + cp.etcdURL,
		"--etcd-cafile=" + cp.path("pki", "ca.crt"),
		"--etcd-certfile=" + cp.path("pki", "etcd-client.crt"),
		"--etcd-keyfile=" + cp.path("pki", "etcd-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + cp.path("pki", serviceAccountKey),
		"--service-account-key-file=" + cp.path("pki", serviceAccountKey),
		"--service-cluster-ip-range=" + serviceRange,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-certificate-authority=" + cp.path("pki", "ca.crt"),
		"--kubelet-client-certificate=" + cp.path("pki", "kubelet-client.crt"),
		"--kubelet-client-key=" + cp.path("pki", "kubelet-client.key"),
		// End watches soon at shutdown. Otherwise, it would wait for a minute without accepting requests.
		"--shutdown-watch-termination-grace-period=5s",
	}
	if net.ParseIP(options.AdvertiseAddress).IsLoopback() {
		// Endpoints must not have a loopback address, which pods could not use.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	return args
}

func (cp *ControlPlane) controllerManagerArgs() []string {
	return append(cp.clientArgs(ControllerManager),
		"--service-account-private-key-file="+cp.path("pki", serviceAccountKey),
		"--root-ca-file="+cp.path("pki", "ca.crt"),
		"--cluster-signing-cert-file="+cp.path("pki", "ca.crt"),
		"--cluster-signing-key-file="+cp.path("pki", "ca.key"),
		"--use-service-account-credentials",
		"--allocate-node-cidrs=false",
	)
}

// clientArgs returns the arguments of the clients of the API server. Each has one replica and so needs no
// leader election, which would delay a restart until the old Lease expires.
func (cp *ControlPlane) clientArgs(name string) []string {
	return []string{
		"--kubeconfig=" + cp.kubeconfigPath(name),
		"--authentication-kubeconfig=" + cp.kubeconfigPath(name),
		"--authorization-kubeconfig=" + cp.kubeconfigPath(name),
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(cp.ports.number(name)),
		"--tls-cert-file=" + cp.path("pki", "localhost.crt"),
		"--tls-private-key-file=" + cp.path("pki", "localhost.key"),
	}
}

// certificates returns the certificates in the folder pki by file name.
func (options Options) certificates() map[string]pki.Identity {
	return map[string]pki.Identity{
		"etcd":        {User: "etcd", Hosts: []string{"127.0.0.1", "localhost"}},
		"etcd-client": {User: "kube-apiserver-etcd-client"},
		"apiserver": {User: "kube-apiserver", Hosts: []string{
			"127.0.0.1", "localhost", options.AdvertiseAddress, serviceIP,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		}},
		"kubelet-client": {User: "kube-apiserver-kubelet-client", Groups: []string{administrators}},
		"localhost":      {User: "localhost", Hosts: []string{"127.0.0.1", "localhost"}},
	}
}
