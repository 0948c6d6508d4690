// Package cluster is what an example is shown on: the access to a cluster, what is installed there, a pretended node, and
// processes that are to the cluster what containers in pods are.
//
// It promises that a process may do exactly what the roles of its ServiceAccount say, or nothing without one, that its
// files are in a folder of its own, and that what it logs is in a file with its name.
package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

// Options say what there is.
type Options struct {
	// Plane is the control plane, with controller manager and scheduler. Kubernetes is its version.
	Plane      *controlplane.ControlPlane
	Kubernetes string
	// Dir is where files are written, in folders of the stage's own and in logs.
	Dir string
	// Programs is the folder with our programs, as FindPrograms finds it.
	Programs string
}

// Stage is what an example is shown on.
type Stage struct {
	Options
	// Client and Clientset are the administrator's: what is done with them, whoever runs the example does.
	Client    client.Client
	Clientset kubernetes.Interface
}

// New prepares the access to the cluster.
func New(options Options) (*Stage, error) {
	s := &Stage{Options: options}
	var err, errs error
	config := options.Plane.RESTConfig()
	s.Client, err = client.New(config, client.Options{})
	errs = errors.Join(errs, err)
	s.Clientset, err = kubernetes.NewForConfig(config)
	return s, errors.Join(errs, err)
}

// Folder is where a process has its files.
func (s *Stage) Folder(name string) string { return filepath.Join(s.Dir, "processes", name) }

// Log is where it writes.
func (s *Stage) Log(name string) string { return filepath.Join(s.Dir, "logs", name+".log") }

// MakeFolder makes the folder of a process.
func (s *Stage) MakeFolder(name string) error {
	if err := os.MkdirAll(s.Folder(name), 0o700); err != nil {
		return fmt.Errorf("making a folder for %s: %w", name, err)
	}
	return nil
}

// ForgetLogs removes what processes of an earlier run have logged, which would be taken for words of this one. Names may
// be patterns.
func (s *Stage) ForgetLogs(names ...string) error {
	var errs []error
	for _, name := range names {
		logs, err := filepath.Glob(s.Log(name))
		errs = append(errs, err)
		for _, log := range logs {
			errs = append(errs, os.Remove(log))
		}
	}
	return errors.Join(errs...)
}

// FindPrograms returns the folder if it has the programs of the names.
func FindPrograms(folder string, names ...string) (string, error) {
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return "", fmt.Errorf("the program %s is missing in %s: build it with 'make build', or run a bare control plane with --example none",
				name, folder)
		}
	}
	return filepath.Abs(folder)
}

// executable is a link with the process's name to its program. The name is what people see in lists of
// processes, and what the API server notes as who has written something.
func (s *Stage) executable(j Job) (string, error) {
	link := filepath.Join(s.Folder(j.Name), j.Name)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("linking to the program: %w", err)
	}
	if err := os.Symlink(filepath.Join(s.Programs, j.Program), link); err != nil {
		return "", fmt.Errorf("linking to the program: %w", err)
	}
	return link, nil
}
