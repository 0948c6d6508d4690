//go:build linux

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// stopTimeout is the time between SIGTERM and SIGKILL.
const stopTimeout = 20 * time.Second

func (s *Supervisor) asset(name string) string { return filepath.Join(s.assets, name) }

// launch starts a program. Its end is sent to s.failed.
func (s *Supervisor) launch(name, path string, args ...string) (*process.Process, error) {
	started, err := process.Start(process.Spec{Name: name, Path: path, Args: args, Dir: "/", Log: s.folder.Log(name)})
	if err != nil {
		return nil, err
	}
	go func() {
		<-started.Done()
		select {
		case s.failed <- ended(started):
		default: // the first end is the cause of the others
		}
	}()
	return started, nil
}

func ended(p *process.Process) error {
	return fmt.Errorf("%s ended by itself: %w\n%s", p.Name(), p.Wait(context.Background()), p.Tail(10))
}

// end stops a program, if it was started.
func (s *Supervisor) end(ctx context.Context, p *process.Process) error {
	if p == nil || !p.Running() {
		return nil
	}
	return s.progress.Step("stopping "+p.Name(), func() error {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return p.Stop(ctx)
	})
}

// await polls until the result is nil, the program has ended, or ctx has.
func (s *Supervisor) await(ctx context.Context, p *process.Process, poll func(context.Context) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := poll(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return ended(p)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w); its log ends with:\n%s", p.Name(), err, ctx.Err(), p.Tail(10))
		case <-ticker.C:
		}
	}
}

func dial(ctx context.Context, socket string) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return connection.Close()
}

func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

func (s *Supervisor) nodeReady(ctx context.Context) error {
	node, err := s.client.CoreV1().Nodes().Get(ctx, config.NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return nil
		}
		return fmt.Errorf("the node is not ready: %s", condition.Message)
	}
	return errors.New("the node has no condition Ready")
}

// writeKubeletIdentity makes the kubelet's two certificates: the client certificate for the API server,
// and the server certificate that the API server verifies.
func (s *Supervisor) writeKubeletIdentity() error {
	client := pki.Identity{User: "system:node:" + config.NodeName, Groups: []string{"system:nodes"}}
	if err := s.control.WriteKubeconfig(s.folder.Config(config.KubeletIdentity), client); err != nil {
		return err
	}
	server := client
	server.Hosts = []string{config.Address, config.NodeName}
	pair, err := s.control.Issue(server)
	if err != nil {
		return err
	}
	return pair.Write(s.folder.PKI("kubelet"))
}

func (s *Supervisor) writeProxyIdentity() error {
	return s.control.WriteKubeconfig(s.folder.Config(config.ProxyIdentity), pki.Identity{User: "system:kube-proxy"})
}
