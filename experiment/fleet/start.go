package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// install installs the CRDs, and the namespaces, ServiceAccounts and roles.
func (f *Fleet) install(ctx context.Context) error {
	read := func(sources []source) (all []*unstructured.Unstructured, err error) {
		for _, s := range sources {
			objects, err := manifest.Read(s.files, s.path)
			if err != nil {
				return nil, fmt.Errorf("reading the manifests: %w", err)
			}
			all = append(all, objects...)
		}
		return all, nil
	}
	kinds, err := read(f.options.Setup.kinds())
	if err != nil {
		return err
	}
	if err := f.cluster.InstallKinds(ctx, kinds...); err != nil {
		return err
	}
	objects, err := read(f.options.Setup.objects())
	if err != nil {
		return err
	}
	return f.cluster.Install(ctx, "the roles of "+string(f.options.Setup), objects...)
}

// reserve reserves a port for a process.
func (f *Fleet) reserve() (int, error) {
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ports = append(f.ports, port)
	return port.Number, nil
}

// serves records where a process serves its metrics.
func (f *Fleet) serves(name, url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints[name] = url
}

// program returns a program that runs with the identity of a ServiceAccount.
func (f *Fleet) program(name, program, namespace, account string, args ...string) supervisor.Program {
	return supervisor.Program{Name: name, Prepare: func(ctx context.Context) (process.Spec, error) {
		env, err := f.identify(ctx, name, namespace, account)
		if err != nil {
			return process.Spec{}, err
		}
		return process.Spec{
			Name: name, Path: filepath.Join(f.options.Programs, program), Args: args, Log: f.cluster.Log(name), Env: append(os.Environ(), env...),
		}, nil
	}}
}

// join starts one more instance.
func (f *Fleet) join() error {
	metrics, err := f.reserve()
	if err != nil {
		return err
	}
	profiles, err := f.reserve()
	if err != nil {
		return err
	}
	name := InstanceName(f.next)
	f.next++
	if err := f.cluster.CreateDir(name); err != nil {
		return err
	}
	f.serves(name, fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
	f.mu.Lock()
	f.profiles[name] = fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/heap?gc=1", profiles)
	f.mu.Unlock()
	args := []string{
		fmt.Sprint("--pprof-address=127.0.0.1:", profiles),
		"--mode=" + f.options.Setup.mode(), "--health-address=0", fmt.Sprint("--metrics-address=127.0.0.1:", metrics),
		// Each reconcile is logged; package history reads the logs.
		"--zap-log-level=debug",
	}
	if f.options.Workers > 0 {
		args = append(args, "--concurrency="+strconv.Itoa(f.options.Workers))
	}
	if f.options.WorkTime > 0 {
		args = append(args, "--work-time="+f.options.WorkTime.String())
	}
	return f.supervisor.Add(f.program(name, operator, Namespace, Ring, args...))
}

// startSharder starts the external sharder, and serves its webhook on this machine.
func (f *Fleet) startSharder(ctx context.Context) error {
	webhook, err := f.reserve()
	if err != nil {
		return err
	}
	metrics, err := f.reserve()
	if err != nil {
		return err
	}
	if f.reader, err = f.metricsReader(ctx); err != nil {
		return err
	}
	if err := f.cluster.CreateDir(Sharder); err != nil {
		return err
	}
	path := filepath.Join(f.cluster.ProcessDir(Sharder), "config.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, `apiVersion: config.sharding.timebertt.dev/v1alpha1
kind: SharderConfig
health: {bindAddress: "0"}
metrics: {bindAddress: "127.0.0.1:%d"}
webhook:
  config:
    clientConfig:
      url: https://%s:%d
`, metrics, f.options.Host, webhook), 0o600); err != nil {
		return fmt.Errorf("configuring the sharder: %w", err)
	}
	f.serves(Sharder, fmt.Sprintf("https://127.0.0.1:%d/metrics", metrics))
	return f.supervisor.Add(f.program(Sharder, Sharder, shardingv1alpha1.NamespaceSystem, Sharder, "--config", path, "--webhook-port", strconv.Itoa(webhook)))
}

const readerName, readerBinding = "experiment", "ringmaster-experiment-metrics"

// metricsReader creates a ServiceAccount that may read the sharder's metrics, and returns its token.
func (f *Fleet) metricsReader(ctx context.Context) (string, error) {
	const name = readerName
	apply := metav1.ApplyOptions{FieldManager: cluster.FieldManager, Force: true} // the experiment owns it
	account := applycorev1.ServiceAccount(name, Namespace)
	if _, err := f.cluster.Clientset.CoreV1().ServiceAccounts(Namespace).Apply(ctx, account, apply); err != nil {
		return "", fmt.Errorf("creating the metrics reader: %w", err)
	}
	binding := applyrbacv1.ClusterRoleBinding(readerBinding).
		WithRoleRef(applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName("sharding:metrics-reader")).
		WithSubjects(applyrbacv1.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(Namespace).WithName(name))
	if _, err := f.cluster.Clientset.RbacV1().ClusterRoleBindings().Apply(ctx, binding, apply); err != nil {
		return "", fmt.Errorf("binding the role of the metrics reader: %w", err)
	}
	return token(ctx, f.cluster.Clientset, Namespace, name)
}

// Projects creates the namespaces of users, and Themes, and returns their names. It fails if one of them exists.
func (f *Fleet) Projects(ctx context.Context, count int) (namespaces, themes []string, err error) {
	var objects []client.Object
	for i := range count {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("experiment-", i), Labels: map[string]string{"webhosting.timebertt.dev/project": "true", labelOwn: "true"},
		}}
		objects, namespaces = append(objects, namespace), append(namespaces, namespace.Name)
	}
	for _, color := range []string{"darkcyan", "orchid", "teal"} {
		theme := &webhostingv1alpha1.Theme{
			ObjectMeta: metav1.ObjectMeta{Name: "experiment-" + color, Labels: ownLabels},
			Spec:       webhostingv1alpha1.ThemeSpec{Color: color, FontFamily: "Menlo"},
		}
		objects, themes = append(objects, theme), append(themes, theme.Name)
	}
	for _, object := range objects {
		err := f.cluster.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			err = errors.New("it already exists: delete it if a previous experiment has left it behind")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("creating %s for the users: %w", object.GetName(), err)
		}
	}
	return namespaces, themes, nil
}

// awaitReady waits until all instances are ready, so that the first Websites have an owner immediately.
func (f *Fleet) awaitReady(ctx context.Context) error {
	return cluster.WaitFor(ctx, "the instances to be ready", func(ctx context.Context) (bool, error) {
		leases, err := f.cluster.Clientset.CoordinationV1().Leases(Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		held := map[string]bool{}
		leading := false
		for _, lease := range leases.Items {
			if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				continue
			}
			held[lease.Name] = true
			leading = leading || lease.Labels[shardingv1alpha1.LabelControllerRing] == ""
		}
		if f.options.Setup == Lead {
			return leading && f.allServe(ctx), nil
		}
		for _, name := range f.instances() {
			if !held[name] {
				return false, nil
			}
		}
		if f.options.Setup == InProcess {
			return leading, nil
		}
		return f.ringReady(ctx)
	})
}

// allServe reports whether all instances serve metrics, including standbys.
func (f *Fleet) allServe(ctx context.Context) bool {
	for _, name := range f.running() {
		if _, err := f.metrics(name)(ctx); err != nil {
			return false
		}
	}
	return true
}

// ringReady reports whether all instances are available shards of the ring.
func (f *Fleet) ringReady(ctx context.Context) (bool, error) {
	ring := &unstructured.Unstructured{}
	ring.SetGroupVersionKind(shardingv1alpha1.SchemeGroupVersion.WithKind("ControllerRing"))
	if err := f.cluster.Client.Get(ctx, keyOf(Ring), ring); err != nil {
		return false, err
	}
	available, _, _ := unstructured.NestedInt64(ring.Object, "status", "availableShards")
	conditions, _, _ := unstructured.NestedSlice(ring.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == shardingv1alpha1.ConditionReady {
			return fields["status"] == "True" && int(available) == len(f.instances()), nil
		}
	}
	return false, nil
}

// metricsClient reads metrics that are served on this machine with a self-signed certificate.
var metricsClient = &http.Client{
	Timeout:   5 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a process of this experiment, on this machine
}
