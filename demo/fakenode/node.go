package fakenode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/internal/pki"
)

// Identity is the certificate that a node of the name needs.
func Identity(name string) pki.Identity {
	return pki.Identity{User: "system:node:" + name, Groups: []string{"system:nodes"}}
}

// Options say which node it is.
type Options struct {
	Name string
	// Version is what the node says it is the kubelet of.
	Version string
	// Clientset has the identity of the node.
	Clientset kubernetes.Interface
	// Processes tells of pods that are more than pretended: processes of this machine. May be nil.
	Processes func(namespace, name string) (process Process, is bool)
	// Report is told what goes wrong. The node goes on.
	Report func(error)
}

// Process is what runs in a pod.
type Process struct {
	Running  bool
	Restarts int32
	// Reason is a word for why it does not run.
	Reason string
}

const (
	leaseDuration = 40 * time.Second
	heartbeat     = 10 * time.Second
	workers       = 16
	retry         = time.Second
)

// Node pretends.
type Node struct {
	Options
	pods      corev1listers.PodLister
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	addresses addresses
}

// New returns a node that does nothing yet.
func New(options Options) *Node {
	return &Node{
		Options: options,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "pods"}),
	}
}

// Look makes the node look at a pod again, because something has happened to its process.
func (n *Node) Look(namespace, name string) {
	n.queue.Add(cache.ObjectName{Namespace: namespace, Name: name})
}

// Run pretends until ctx ends.
func (n *Node) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { n.live(ctx) })

	watch := cache.NewListWatchFromClient(n.Clientset.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", n.Name))
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: watch, ObjectType: &corev1.Pod{}, Handler: n.handler(),
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	n.pods = corev1listers.NewPodLister(store.(cache.Indexer))
	all.Go(func() { informer.RunWithContext(ctx) })
	for range workers {
		all.Go(func() {
			for n.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	n.queue.ShutDown()
}

func (n *Node) handler() cache.ResourceEventHandler {
	add := func(object any) {
		if pod, is := object.(*corev1.Pod); is {
			n.Look(pod.Namespace, pod.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
}

// live registers until it works, and then renews for ever.
func (n *Node) live(ctx context.Context) {
	for registered := false; ; {
		step, wait := n.register, time.Duration(0)
		if registered {
			step, wait = n.renew, heartbeat
		}
		if err := step(ctx); err == nil {
			registered = true
		} else if wait = retry; ctx.Err() == nil {
			n.Report(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// register makes the node known and ready. It is this node's own object, and nobody else writes what is
// written here, except that the status of a node that was away may have been set to unknown.
func (n *Node) register(ctx context.Context) error {
	nodes := n.Clientset.CoreV1().Nodes()
	node, err := nodes.Create(ctx, object(n.Name), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		node, err = nodes.Get(ctx, n.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("registering the node: %w", err)
	}
	node.Status = nodeStatus(n.Name, n.Version, metav1.Now())
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("making the node ready: %w", err)
	}
	return nil
}

// renew keeps the node alive.
func (n *Node) renew(ctx context.Context) error {
	leases := n.Clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("reading the node's Lease: %w", err)
	}
	seconds := int32(leaseDuration / time.Second)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &n.Name, &seconds, &now
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("renewing the node's Lease: %w", err)
	}
	return n.recover(ctx)
}

// recover makes the node ready again after it was away, for instance because the machine slept.
func (n *Node) recover(ctx context.Context) error {
	node, err := n.Clientset.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return n.register(ctx)
	}
	if err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return n.register(ctx)
}

// next looks at one pod.
func (n *Node) next(ctx context.Context) bool {
	name, closed := n.queue.Get()
	if closed {
		return false
	}
	defer n.queue.Done(name)
	err := n.look(ctx, name)
	if err == nil || ctx.Err() != nil {
		n.queue.Forget(name)
		return true
	}
	if !apierrors.IsConflict(err) { // somebody has written the pod, and the news is on its way
		n.Report(err)
	}
	n.queue.AddRateLimited(name)
	return true
}

// look lets a pod run, or go.
func (n *Node) look(ctx context.Context, name cache.ObjectName) error {
	pod, err := n.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	pods := n.Clientset.CoreV1().Pods(name.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		err = pods.Delete(ctx, name.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if apierrors.IsNotFound(err) {
			return nil
		}
	case ended(pod):
		return nil
	default:
		process := n.processOf(pod)
		if shows(pod, process) {
			return nil
		}
		pod = pod.DeepCopy()
		pod.Status = podStatus(pod, process, n.addresses.of(pod), metav1.Now())
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("looking after the pod %s: %w", name, err)
	}
	return err
}

// processOf is what runs in a pod. In most nothing does, and that runs well.
func (n *Node) processOf(pod *corev1.Pod) Process {
	if n.Processes != nil {
		if process, is := n.Processes(pod.Namespace, pod.Name); is {
			return process
		}
	}
	return Process{Running: true}
}

// addresses gives pods addresses that nobody can reach.
type addresses struct {
	mu   sync.Mutex
	last int
}

func (a *addresses) of(pod *corev1.Pod) string {
	if pod.Status.PodIP != "" {
		return pod.Status.PodIP
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	const octet, all = 256, 256 * 256
	a.last = (a.last + 1) % all
	return fmt.Sprintf("10.244.%d.%d", a.last/octet, a.last%octet)
}
