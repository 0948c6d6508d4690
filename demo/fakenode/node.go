// Package fakenode is a node that accepts any number of pods and runs no containers.
//
// It does what the cluster expects of a kubelet: the node is Ready and renews its Lease, a pod that
// is bound to it becomes Running and Ready, and a pod that is being deleted is removed. It has the
// permissions of a node, and no others.
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

// Identity returns the identity that the certificate of a node needs.
func Identity(name string) pki.Identity {
	return pki.Identity{User: "system:node:" + name, Groups: []string{"system:nodes"}}
}

// Options describe the node.
type Options struct {
	Name string
	// Version is the version of the kubelet in the status of the node.
	Version string
	// Clientset has the identity of the node.
	Clientset kubernetes.Interface
	// Processes returns the process behind a pod, if the pod stands for a process of this machine.
	// May be nil.
	Processes func(namespace, name string) (process Process, found bool)
	// Report receives errors. The node retries.
	Report func(error)
}

// Process is the state of the process that a pod stands for.
type Process struct {
	Running  bool
	Restarts int32
	// Reason is the reason in the waiting state of a container that does not run.
	Reason string
}

const (
	leaseDuration     = 40 * time.Second
	heartbeatInterval = 10 * time.Second
	workers           = 16
	retryInterval     = time.Second
)

// Node is a fake node.
type Node struct {
	Options
	pods      corev1listers.PodLister
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	addresses addresses
}

// New returns a node, which Run starts.
func New(options Options) *Node {
	return &Node{
		Options: options,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "pods"}),
	}
}

// Enqueue makes the node update the status of a pod whose process has changed.
func (n *Node) Enqueue(namespace, name string) {
	n.queue.Add(cache.ObjectName{Namespace: namespace, Name: name})
}

// Run registers the node, and updates its pods until ctx ends.
func (n *Node) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { n.heartbeat(ctx) })

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
			for n.processNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	n.queue.ShutDown()
}

func (n *Node) handler() cache.ResourceEventHandler {
	add := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			n.Enqueue(pod.Namespace, pod.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
}

// heartbeat registers the node, and then renews its Lease until ctx ends.
func (n *Node) heartbeat(ctx context.Context) {
	for registered := false; ; {
		step, wait := n.register, time.Duration(0)
		if registered {
			step, wait = n.renew, heartbeatInterval
		}
		if err := step(ctx); err == nil {
			registered = true
		} else if wait = retryInterval; ctx.Err() == nil {
			n.Report(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// register creates the Node object and sets it to Ready. Only this program writes its status,
// except that the node lifecycle controller sets the conditions of a silent node to Unknown.
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
		return fmt.Errorf("setting the node to ready: %w", err)
	}
	return nil
}

// renew renews the Lease of the node.
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

// recover sets the node to Ready again after it was silent for too long, for example because the
// machine slept.
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

// processNext processes one pod of the queue. It returns false when the queue is shut down.
func (n *Node) processNext(ctx context.Context) bool {
	name, closed := n.queue.Get()
	if closed {
		return false
	}
	defer n.queue.Done(name)
	err := n.syncPod(ctx, name)
	if err == nil || ctx.Err() != nil {
		n.queue.Forget(name)
		return true
	}
	if !apierrors.IsConflict(err) { // another client has written the pod; the cache will see it
		n.Report(err)
	}
	n.queue.AddRateLimited(name)
	return true
}

// syncPod sets a pod to running, or completes its deletion.
func (n *Node) syncPod(ctx context.Context, name cache.ObjectName) error {
	pod, err := n.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return nil //nolint:nilerr // it was deleted
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
	case terminated(pod):
		return nil
	default:
		process := n.processOf(pod)
		if statusMatches(pod, process) {
			return nil
		}
		pod = pod.DeepCopy()
		pod.Status = podStatus(pod, process, n.addresses.assign(pod), metav1.Now())
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("updating the pod %s: %w", name, err)
	}
	return err
}

// processOf returns the process of a pod. A pod that does not stand for a process counts as
// running.
func (n *Node) processOf(pod *corev1.Pod) Process {
	if n.Processes != nil {
		if process, found := n.Processes(pod.Namespace, pod.Name); found {
			return process
		}
	}
	return Process{Running: true}
}

// addresses assigns IP addresses to pods. Nothing listens there.
type addresses struct {
	mu   sync.Mutex
	last int
}

func (a *addresses) assign(pod *corev1.Pod) string {
	if pod.Status.PodIP != "" {
		return pod.Status.PodIP
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	const octet, all = 256, 256 * 256
	a.last = (a.last + 1) % all
	return fmt.Sprintf("10.244.%d.%d", a.last/octet, a.last%octet)
}
