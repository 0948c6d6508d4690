// Package cluster prepares the cluster that an example runs on: clients, manifests, a fake node,
// and processes that stand in for the containers of pods.
//
// It guarantees that a process has exactly the permissions of its ServiceAccount, or none without
// one, that its files are in its own folder, and that its log is in a file with its name.
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

// Options describe the control plane and the folders to use.
type Options struct {
	// Plane is the control plane, with controller manager and scheduler. Kubernetes is its version.
	Plane      *controlplane.ControlPlane
	Kubernetes string
	// Dir is the data folder. Files are written to its subfolders processes, kubeconfigs and logs.
	Dir string
	// Programs is the folder with our programs, as returned by FindPrograms.
	Programs string
}

// Cluster is the cluster that an example runs on.
type Cluster struct {
	Options
	// Client and Clientset have the permissions of the administrator.
	Client    client.Client
	Clientset kubernetes.Interface
}

// New creates the clients of the cluster.
func New(options Options) (*Cluster, error) {
	c := &Cluster{Options: options}
	var err, errs error
	config := options.Plane.RESTConfig()
	c.Client, err = client.New(config, client.Options{})
	errs = errors.Join(errs, err)
	c.Clientset, err = kubernetes.NewForConfig(config)
	return c, errors.Join(errs, err)
}

// ProcessDir returns the folder with the files of a process.
func (c *Cluster) ProcessDir(name string) string { return filepath.Join(c.Dir, "processes", name) }

// Log returns the path of the log of a process.
func (c *Cluster) Log(name string) string { return filepath.Join(c.Dir, "logs", name+".log") }

// CreateDir creates the folder of a process.
func (c *Cluster) CreateDir(name string) error {
	if err := os.MkdirAll(c.ProcessDir(name), 0o700); err != nil {
		return fmt.Errorf("creating a folder for %s: %w", name, err)
	}
	return nil
}

// RemoveLogs removes the logs of an earlier run, which would be mistaken for those of this run.
// Names may be glob patterns.
func (c *Cluster) RemoveLogs(names ...string) error {
	var errs []error
	for _, name := range names {
		logs, err := filepath.Glob(c.Log(name))
		errs = append(errs, err)
		for _, log := range logs {
			errs = append(errs, os.Remove(log))
		}
	}
	return errors.Join(errs...)
}

// FindPrograms returns the absolute path of the folder if it has the named programs.
func FindPrograms(folder string, names ...string) (string, error) {
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return "", fmt.Errorf("program %s not found in %s: build it with 'make build', or run only the control plane with --example none",
				name, folder)
		}
	}
	return filepath.Abs(folder)
}

// executable creates a link to the program that has the name of the process. The name appears in
// lists of processes, and the API server records it as the field manager.
func (c *Cluster) executable(spec ProcessSpec) (string, error) {
	link := filepath.Join(c.ProcessDir(spec.Name), spec.Name)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("linking to the program: %w", err)
	}
	if err := os.Symlink(filepath.Join(c.Programs, spec.Program), link); err != nil {
		return "", fmt.Errorf("linking to the program: %w", err)
	}
	return link, nil
}
