package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// Process is a process that can be measured.
type Process struct {
	Name string
	PID  int
	// Metrics returns its metrics in Prometheus' text format; nil if it serves none.
	Metrics func(context.Context) ([]byte, error)
}

// Processes returns the running processes of the setup and, if the experiment has started it, of the control plane.
func (f *Fleet) Processes() []Process {
	var all []Process
	for _, member := range f.supervisor.Processes() {
		if member.Phase == supervisor.Running || member.Phase == supervisor.Stopping && member.PID != 0 { // it still reconciles
			all = append(all, Process{Name: member.Name, PID: member.PID, Metrics: f.metrics(member.Name)})
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
		text, err := read(request)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", name, err)
		}
		return text, nil
	}
}

func read(request *http.Request) ([]byte, error) {
	response, err := metricsClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("got status %s", response.Status)
	}
	return content, err
}

// CollectGarbage makes all running instances collect garbage, so that their heap has only objects in use. The second collection
// frees the objects that the first one kept in pools.
func (f *Fleet) CollectGarbage(ctx context.Context) error {
	for _, name := range f.running() {
		f.mu.Lock()
		url := f.profiles[name]
		f.mu.Unlock()
		for range 2 {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				return err
			}
			if _, err := read(request); err != nil {
				return fmt.Errorf("collecting the garbage of %s: %w", name, err)
			}
		}
	}
	return nil
}

// APIServer returns the metrics of the API server.
func (f *Fleet) APIServer(ctx context.Context) ([]byte, error) {
	text, err := f.cluster.Clientset.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	return text, nil
}

// Logs returns the log file of each instance.
func (f *Fleet) Logs() map[string]string {
	logs := map[string]string{}
	for number := range f.next {
		logs[InstanceName(number)] = f.cluster.Log(InstanceName(number))
	}
	return logs
}
