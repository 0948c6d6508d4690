package cluster

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/identity"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// LabelName is the label of the Pods of processes. Its value is the name of the ServiceAccount.
const LabelName = "app.kubernetes.io/name"

// ProcessSpec describes a process and its identity.
type ProcessSpec struct {
	Name, Program string
	// Namespace and Account name the ServiceAccount of the process. Without them it has no Pod and
	// no access to the cluster.
	Namespace, Account string
	Args               []string
}

// Program returns the program of a process. CreateDir must have created its folder.
func (c *Cluster) Program(spec ProcessSpec) supervisor.Program {
	return supervisor.Program{Name: spec.Name, Prepare: func(ctx context.Context) (process.Spec, error) {
		env, err := c.identify(ctx, spec)
		if err != nil {
			return process.Spec{}, err
		}
		path, err := c.executable(spec)
		if err != nil {
			return process.Spec{}, err
		}
		return process.Spec{Name: spec.Name, Path: path, Args: spec.Args, Log: c.Log(spec.Name), Env: slices.Concat(os.Environ(), env)}, nil
	}}
}

// identify returns the environment with the credentials of a process. It is called before each
// start, because the tokens of a Pod are invalid after the Pod was deleted.
func (c *Cluster) identify(ctx context.Context, spec ProcessSpec) ([]string, error) {
	if spec.Account == "" {
		return []string{"KUBECONFIG=" + os.DevNull}, nil // not the user's own
	}
	const year = 365 * 24 * time.Hour // no demo runs longer
	created, err := identity.Create(ctx, c.Plane, c.Clientset, identity.Request{
		Pod: pod(spec), Validity: year, Folder: c.ProcessDir(spec.Name), Server: c.Plane.URL(),
	})
	if err != nil {
		return nil, err
	}
	return append(created.Env(), "POD_UID="+string(created.Pod.UID)), nil
}

// pod returns the Pod that represents the process. It is bound to the fake node, which reports it
// as running.
func pod(spec ProcessSpec) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: spec.Namespace, Name: spec.Name,
			Labels:      map[string]string{LabelName: spec.Account},
			Annotations: map[string]string{"ringmaster.demo/process": "this pod stands for a process of ringmaster up"},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: spec.Account, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: strings.ReplaceAll(spec.Program, ".", "-"), Image: spec.Program,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
