package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/demo/crew"
	"github.com/ringmaster-project/ringmaster/internal/identity"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

const (
	sharder = "sharder"
	// labelName is on the Pods of processes, with the ServiceAccount's name.
	labelName = "app.kubernetes.io/name"
)

// FindPrograms returns the folder if it has what a demo in that mode runs.
func FindPrograms(folder, mode string) (string, error) {
	for _, name := range programs(mode) {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return "", fmt.Errorf("the program %s is missing in %s: build it with 'make build', or run a bare control plane with --example none",
				name, folder)
		}
	}
	return filepath.Abs(folder)
}

// instance is what to run for an instance of the operator.
func (d *Demo) instance(number int) crew.Program {
	name := InstanceName(number)
	return d.program(job{
		name: name, namespace: d.example.namespace, account: d.example.ring, program: d.example.program,
		args: []string{
			"--mode=" + d.options.Mode,
			"--health-address=0", "--metrics-address=0",
			// So that each reconcile is in the log: who wants to know who worked on what can read it there.
			"--zap-log-level=debug",
		},
	})
}

// replica is what to run for a replica of the sharder. The API server reaches all of them through one
// address, as it would through a Service.
func (d *Demo) replica(number int) (crew.Program, error) {
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return crew.Program{}, err
	}
	name := sharder + "-" + strconv.Itoa(number)
	d.ports = append(d.ports, port)
	d.webhooks[name] = "127.0.0.1:" + strconv.Itoa(port.Number)
	path := filepath.Join(d.folder(name), "config.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, `apiVersion: config.sharding.timebertt.dev/v1alpha1
kind: SharderConfig
health: {bindAddress: "0"}
metrics: {bindAddress: "0"}
webhook:
  config:
    clientConfig:
      url: https://%s
`, d.balancer.Address()), 0o600); err != nil {
		return crew.Program{}, fmt.Errorf("configuring the sharder: %w", err)
	}
	return d.program(job{
		name: name, namespace: shardingv1alpha1.NamespaceSystem, account: sharder, program: sharder,
		args: []string{"--config", path, "--webhook-port", strconv.Itoa(port.Number)},
	}), nil
}

// job is what a process is to do, and as whom.
type job struct {
	name, namespace, account, program string
	args                              []string
}

// program gives a process its identity before each start: a Pod that was deleted takes its tokens with it.
func (d *Demo) program(j job) crew.Program {
	return crew.Program{Name: j.name, Prepare: func(ctx context.Context) (process.Spec, error) {
		const year = 365 * 24 * time.Hour // nobody shows anything for longer
		given, err := identity.Give(ctx, d.options.Plane, d.clientset, identity.Request{
			Pod: pod(j), Life: year, Folder: d.folder(j.name), Server: d.options.Plane.URL(),
		})
		if err != nil {
			return process.Spec{}, err
		}
		path, err := d.executable(j)
		if err != nil {
			return process.Spec{}, err
		}
		return process.Spec{
			Name: j.name, Path: path, Args: j.args, Log: d.log(j.name),
			Env: slices.Concat(os.Environ(), given.Env(), []string{"POD_UID=" + string(given.Pod.UID)}),
		}, nil
	}}
}

// executable is a link with the process's name to its program. The name is what people see in lists of
// processes, and what the API server notes as who has written something.
func (d *Demo) executable(j job) (string, error) {
	link := filepath.Join(d.folder(j.name), j.name)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("linking to the program: %w", err)
	}
	if err := os.Symlink(filepath.Join(d.options.Programs, j.program), link); err != nil {
		return "", fmt.Errorf("linking to the program: %w", err)
	}
	return link, nil
}

// folder is where a process has its files. Start has made it.
func (d *Demo) folder(name string) string { return filepath.Join(d.options.Dir, "processes", name) }

func (d *Demo) log(name string) string { return filepath.Join(d.options.Dir, "logs", name+".log") }

func (d *Demo) makeFolder(name string) error {
	if err := os.MkdirAll(d.folder(name), 0o700); err != nil {
		return fmt.Errorf("making a folder for %s: %w", name, err)
	}
	return nil
}

// forgetLogs removes what an earlier run has logged, which would be taken for words of this one.
func (d *Demo) forgetLogs() error {
	var errs []error
	for _, name := range []string{sharder, d.example.ring} {
		logs, err := filepath.Glob(d.log(name + "-*"))
		errs = append(errs, err)
		for _, log := range logs {
			errs = append(errs, os.Remove(log))
		}
	}
	return errors.Join(errs...)
}

// pod is what the process is to the cluster. It is on the pretended node, which takes it for granted.
func pod(j job) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.namespace, Name: j.name,
			Labels:      map[string]string{labelName: j.account},
			Annotations: map[string]string{"ringmaster.demo/process": "this pod is a process of ringmaster up"},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: j.account, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: strings.ReplaceAll(j.program, ".", "-"), Image: j.program,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
