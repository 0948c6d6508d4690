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

// LabelName is on the Pods of processes, with the ServiceAccount's name.
const LabelName = "app.kubernetes.io/name"

// Job is what a process is to do, and as whom.
type Job struct {
	Name, Program string
	// Namespace and Account are those of its ServiceAccount. Without them the cluster does not know the process, and it
	// has no access.
	Namespace, Account string
	Args               []string
}

// Program is what to run for a job, whose folder is there.
func (s *Stage) Program(j Job) supervisor.Program {
	return supervisor.Program{Name: j.Name, Prepare: func(ctx context.Context) (process.Spec, error) {
		env, err := s.identify(ctx, j)
		if err != nil {
			return process.Spec{}, err
		}
		path, err := s.executable(j)
		if err != nil {
			return process.Spec{}, err
		}
		return process.Spec{Name: j.Name, Path: path, Args: j.Args, Log: s.Log(j.Name), Env: slices.Concat(os.Environ(), env)}, nil
	}}
}

// identify gives a process its identity before each start: a Pod that was deleted takes its tokens with it.
func (s *Stage) identify(ctx context.Context, j Job) ([]string, error) {
	if j.Account == "" {
		return []string{"KUBECONFIG=" + os.DevNull}, nil // and not that of who runs this
	}
	const year = 365 * 24 * time.Hour // nobody shows anything for longer
	given, err := identity.Create(ctx, s.Plane, s.Clientset, identity.Request{
		Pod: pod(j), Validity: year, Folder: s.Folder(j.Name), Server: s.Plane.URL(),
	})
	if err != nil {
		return nil, err
	}
	return append(given.Env(), "POD_UID="+string(given.Pod.UID)), nil
}

// pod is what the process is to the cluster. It is on the pretended node, which takes it for granted.
func pod(j Job) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: j.Name,
			Labels:      map[string]string{LabelName: j.Account},
			Annotations: map[string]string{"ringmaster.demo/process": "this pod is a process of ringmaster up"},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: j.Account, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: strings.ReplaceAll(j.Program, ".", "-"), Image: j.Program,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
