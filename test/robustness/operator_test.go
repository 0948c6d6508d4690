package robustness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/seed"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// The lease durations of shards and of the sharder: short, so that tests do not wait long for a death, and long enough
// for a busy machine.
const leaseDuration, retryPeriod = 12 * time.Second, time.Second

// deadline returns the renew deadline for a lease duration.
func deadline(lease time.Duration) time.Duration { return lease * 3 / 4 }

// The environment variables of an operator.
const (
	variableRing   = "ROBUSTNESS_RING"
	variableRecord = "ROBUSTNESS_RECORD"
	// variableClock is the error of the process's clock.
	variableClock = "ROBUSTNESS_CLOCK"
	// variableWork is the maximum duration of a reconcile.
	variableWork = "ROBUSTNESS_WORK"
	// variableLease is the lease duration.
	variableLease = "ROBUSTNESS_LEASE"
	// variableSuffix is what the operator appends to the names of children and its finalizer, so that two operators can
	// work on the same objects.
	variableSuffix = "ROBUSTNESS_SUFFIX"
)

// duration returns the value of a variable, or a default.
func duration(variable string, otherwise time.Duration) (time.Duration, error) {
	if value := os.Getenv(variable); value != "" {
		return time.ParseDuration(value)
	}
	return otherwise, nil
}

// processID returns the ID of a process in the history.
func processID(shard string, pid int) string { return fmt.Sprintf("%s/%d", shard, pid) }

// operator is a typical sharded operator that keeps a Secret for every ConfigMap. It records its reconciles.
func operator(ctx context.Context) error {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	recorder, err := history.NewRecorder(os.Getenv(variableRecord), time.Now)
	if err != nil {
		return err
	}
	config, err := access()
	if err != nil {
		return err
	}
	lease, err := duration(variableLease, leaseDuration)
	if err != nil {
		return err
	}
	work, err := duration(variableWork, 40*time.Millisecond)
	if err != nil {
		return err
	}
	name, namespace := os.Getenv("POD_NAME"), os.Getenv("POD_NAMESPACE")
	const decimal, bits = 10, 64
	seeded, err := strconv.ParseUint(os.Getenv(seed.Variable), decimal, bits)
	if err != nil {
		return err
	}
	random := seed.New(seeded, filepath.Base(os.Getenv(variableRecord)))
	mgr, err := shard.NewManager(config, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	}, shard.Options{
		Ring:          os.Getenv(variableRing),
		LeaseDuration: lease, RenewDeadline: deadline(lease), RetryPeriod: retryPeriod,
	})
	if err != nil {
		return err
	}
	self := history.Event{Process: processID(name, os.Getpid()), Shard: name}
	if err := mgr.Shard().Add(&membershipRecorder{recorder: recorder, self: self, client: mgr.GetAPIReader(), namespace: namespace}); err != nil {
		return err
	}
	if err := shard.ControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, shard.Sharded{}).
		Owns(&corev1.Secret{}, shard.Sharded{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(&worker{
			Client: mgr.GetClient(), recorder: recorder, self: self, work: work,
			random: random, suffix: os.Getenv(variableSuffix),
		}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// access returns the client configuration of the process, with the simulated clock.
func access() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	off, err := duration(variableClock, 0)
	if err != nil {
		return nil, err
	}
	if off != 0 {
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		config.Wrap(withClockSkew(off))
	}
	return config, nil
}

// membershipRecorder records when the process is a shard.
type membershipRecorder struct {
	recorder  *history.Recorder
	self      history.Event
	client    client.Reader
	namespace string
}

// Start implements manager.Runnable.
func (d *membershipRecorder) Start(ctx context.Context) error {
	instance, err := readInstance(ctx, d.client, client.ObjectKey{Namespace: d.namespace, Name: d.self.Shard}, readTimeout)
	if err != nil || ctx.Err() != nil {
		return err
	}
	joined := d.self
	joined.Type, joined.Instance = history.Joined, instance
	d.recorder.Record(joined)
	<-ctx.Done()
	ended := d.self
	ended.Type = history.Left
	if errors.Is(context.Cause(ctx), shard.ErrLeaseLost) {
		ended.Type = history.Lost
	}
	d.recorder.Record(ended)
	return nil
}

// readTimeout bounds the retries of a read of the shard's own Lease: it is longer than any fault that a shard survives.
const readTimeout = leaseDuration

// readInstance reads the instance on a shard's own Lease. It retries for a while, because reads and writes share a connection:
// a fault that loses the response to a write may lose that to a read, too.
func readInstance(ctx context.Context, reader client.Reader, key client.ObjectKey, timeout time.Duration) (string, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error
	for {
		lease := &coordinationv1.Lease{}
		err := reader.Get(limited, key, lease)
		if err == nil {
			return lease.Annotations[shardingv1alpha1.AnnotationInstance], nil
		}
		if limited.Err() == nil || last == nil { // later errors are those of the context
			last = err
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil { // the process is stopping
				return "", nil
			}
			return "", fmt.Errorf("reading this shard's own lease for %s: %w", timeout, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// worker reconciles ConfigMaps.
type worker struct {
	client.Client
	recorder *history.Recorder
	self     history.Event
	work     time.Duration
	random   *rand.Rand
	suffix   string
	count    atomic.Int64
}

const finalizer = "robustness.test/child"

// upTo returns a random duration.
func upTo(random *rand.Rand, maximum time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(maximum)))
}

// Reconcile records its start before its first step, and its end after the last.
func (w *worker) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	this := &history.Reconcile{
		Number: w.count.Add(1),
		Object: history.Object{Kind: "ConfigMap", Namespace: request.Namespace, Name: request.Name},
	}
	event := w.self
	event.Type, event.Reconcile = history.Started, this
	w.recorder.Record(event)
	defer func() {
		this.ContextEnded = ctx.Err() != nil
		event.Type = history.Ended
		w.recorder.Record(event)
	}()
	main := &corev1.ConfigMap{}
	if err := w.Get(ctx, request.NamespacedName, main); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	this.UID = string(main.UID)
	this.Version, _ = strconv.ParseUint(main.ResourceVersion, 10, 64)
	if err := pause(ctx, upTo(w.random, w.work)); err != nil {
		return reconcile.Result{}, err
	}
	if err := w.reconcileChild(ctx, main); err != nil {
		return reconcile.Result{}, err
	}
	// Reconcile each object periodically, so that there are always reconciles that a fault can interrupt.
	return reconcile.Result{RequeueAfter: time.Second + upTo(w.random, 2*time.Second)}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reconcileChild creates or updates the child, and deletes it before the main object.
func (w *worker) reconcileChild(ctx context.Context, main *corev1.ConfigMap) error {
	main = main.DeepCopy()
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: main.Namespace, Name: main.Name + w.suffix}}
	if main.DeletionTimestamp != nil {
		if err := client.IgnoreNotFound(w.Delete(ctx, child)); err != nil {
			return err
		}
		if controllerutil.RemoveFinalizer(main, finalizer+w.suffix) {
			return client.IgnoreNotFound(w.Update(ctx, main))
		}
		return nil
	}
	if controllerutil.AddFinalizer(main, finalizer+w.suffix) {
		if err := w.Update(ctx, main); err != nil {
			return err
		}
	}
	err := w.Get(ctx, client.ObjectKeyFromObject(child), child)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	missing, want := err != nil, []byte(main.Data["number"])
	if !missing && bytes.Equal(child.Data["number"], want) {
		return nil
	}
	child = child.DeepCopy()
	child.Data = map[string][]byte{"number": want}
	if err := controllerutil.SetControllerReference(main, child, w.Scheme()); err != nil {
		return err
	}
	if missing {
		return w.Create(ctx, child)
	}
	return w.Update(ctx, child)
}
