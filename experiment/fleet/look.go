package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
)

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// Process is one that can be measured.
type Process struct {
	Name string
	PID  int
	// Ours tells whether it is the operator's or the sharder's, and not the cluster's.
	Ours bool
	// Metrics is what it says of itself in Prometheus' format; nil if it says nothing.
	Metrics func(context.Context) ([]byte, error)
}

// Processes are those that run now.
func (f *Fleet) Processes() []Process {
	var all []Process
	for _, member := range f.crew.Processes() {
		if member.Phase == supervisor.Running || member.Phase == supervisor.Stopping && member.PID != 0 { // it still works
			all = append(all, Process{Name: member.Name, PID: member.PID, Ours: true, Metrics: f.metrics(member.Name)})
		}
	}
	if plane := f.options.Plane; plane != nil {
		for _, component := range []*controlplane.Component{plane.APIServer, plane.Etcd, plane.ControllerManager} {
			if component != nil && component.Running() {
				all = append(all, Process{Name: component.Name(), PID: component.PID()})
			}
		}
	}
	return all
}

func (f *Fleet) metrics(name string) func(context.Context) ([]byte, error) {
	f.mu.Lock()
	url := f.endpoints[name]
	f.mu.Unlock()
	return func(ctx context.Context) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		if name == Sharder {
			request.Header.Set("Authorization", "Bearer "+f.reader)
		}
		response, err := reading.Do(request)
		if err != nil {
			return nil, fmt.Errorf("asking %s for its metrics: %w", name, err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("it answers %s", response.Status)
		}
		if err != nil {
			return nil, fmt.Errorf("asking %s for its metrics: %w", name, err)
		}
		return text, nil
	}
}

// APIServer is what the API server says of itself.
func (f *Fleet) APIServer(ctx context.Context) ([]byte, error) {
	text, err := f.stage.Clientset.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its metrics: %w", err)
	}
	return text, nil
}

// Logs are the files that the instances log to.
func (f *Fleet) Logs() map[string]string {
	logs := map[string]string{}
	for number := range f.next {
		logs[InstanceName(number)] = f.stage.Log(InstanceName(number))
	}
	return logs
}
