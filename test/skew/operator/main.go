// Command operator is a sharded operator that records its reconciles, for the tests of package skew. It
// keeps a Secret for every ConfigMap.
//
// It is compiled with the library and the package history of the working tree, and with those of an earlier commit,
// so it uses only what both have.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/ringmaster-project/ringmaster/pkg/shard"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

func main() {
	var (
		options shard.Options
		record  string
	)
	flag.StringVar(&options.Ring, "ring", "", "name of the ring")
	flag.DurationVar(&options.LeaseDuration, "lease-duration", 0, "duration of the shard's Lease")
	flag.DurationVar(&options.RenewDeadline, "renew-deadline", 0, "renew deadline of the shard's Lease")
	flag.DurationVar(&options.RetryPeriod, "retry-period", 0, "retry period of the shard's Lease")
	flag.StringVar(&record, "record", "", "file to append the history to")
	flag.Parse()
	if err := run(ctrl.SetupSignalHandler(), options, record); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options shard.Options, record string) error {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	recorder, err := history.NewRecorder(record, time.Now)
	if err != nil {
		return err
	}
	random, err := newRandom(filepath.Base(record))
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	namespace := os.Getenv("POD_NAMESPACE")
	mgr, err := shard.NewManager(config, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	}, options)
	if err != nil {
		return err
	}
	name := mgr.Shard().Name()
	self := history.Event{Process: fmt.Sprintf("%s/%d", name, os.Getpid()), Shard: name}
	lease := client.ObjectKey{Namespace: namespace, Name: name}
	if err := errors.Join(
		mgr.Shard().Add(&membership{recorder: recorder, self: self, reader: mgr.GetAPIReader(), lease: lease}),
		shard.ControllerManagedBy(mgr).
			For(&corev1.ConfigMap{}, shard.Sharded{}).
			Owns(&corev1.Secret{}, shard.Sharded{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
			Complete(&reconciler{Client: mgr.GetClient(), recorder: recorder, self: self, random: random}),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// membership records when the process is a shard.
type membership struct {
	recorder *history.Recorder
	self     history.Event
	reader   client.Reader
	lease    client.ObjectKey
}

// Start implements manager.Runnable.
func (m *membership) Start(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	if err := m.reader.Get(ctx, m.lease, lease); err != nil {
		return fmt.Errorf("reading this shard's own lease: %w", err)
	}
	joined := m.self
	joined.Instance = lease.Annotations[shardingv1alpha1.AnnotationInstance]
	m.recorder.Record(ofType(joined, history.Joined))
	<-ctx.Done()
	left := history.Left
	// By its text, because the two versions of the library name the error differently.
	if cause := context.Cause(ctx).Error(); strings.Contains(cause, "lease") && strings.Contains(cause, "lost") {
		left = history.Lost
	}
	m.recorder.Record(ofType(m.self, left))
	return nil
}

// ofType returns an event with a type. It sets the type by its name in JSON, because the two versions of package history
// name the field differently.
func ofType[T ~string](event history.Event, eventType T) history.Event {
	if err := json.Unmarshal(fmt.Appendf(nil, `{"what":%q}`, eventType), &event); err != nil {
		panic(err) // the types are constants
	}
	return event
}

type reconciler struct {
	client.Client
	recorder *history.Recorder
	self     history.Event
	random   *random
	count    atomic.Int64
}

// random makes random choices that depend on the seed of the test run. The earlier commit does not have the
// package seed.
type random struct {
	mu     sync.Mutex
	source *rand.Rand
}

// newRandom reads the seed from the environment. Processes with different names make different choices.
func newRandom(name string) (*random, error) {
	const variable, decimal, bits = "RINGMASTER_TEST_SEED", 10, 64
	seed, err := strconv.ParseUint(os.Getenv(variable), decimal, bits)
	if err != nil {
		return nil, fmt.Errorf("reading the seed in %s: %w", variable, err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return &random{source: rand.New(rand.NewPCG(seed, hash.Sum64()))}, nil
}

// upTo returns a random duration.
func (r *random) upTo(limit time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.source.Int64N(int64(limit)))
}

// Reconcile records its start before its first step, and its end after the last.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	this := &history.Reconcile{
		Number: r.count.Add(1),
		Object: history.Object{Kind: "ConfigMap", Namespace: request.Namespace, Name: request.Name},
	}
	event := r.self
	event.Reconcile = this
	r.recorder.Record(ofType(event, history.Started))
	defer func() {
		this.ContextEnded = ctx.Err() != nil
		r.recorder.Record(ofType(event, history.Ended))
	}()
	object := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// A reconcile takes some time, so that a move or a kill can interrupt it.
	timer := time.NewTimer(r.random.upTo(100 * time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return reconcile.Result{}, context.Cause(ctx)
	}
	if err := r.ensureSecret(ctx, object); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: time.Second + r.random.upTo(time.Second)}, nil
}

func (r *reconciler) ensureSecret(ctx context.Context, owner *corev1.ConfigMap) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
	err := r.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	missing, want := apierrors.IsNotFound(err), []byte(owner.Data["number"])
	if err != nil && !missing || !missing && bytes.Equal(secret.Data["number"], want) {
		return client.IgnoreNotFound(err)
	}
	secret = secret.DeepCopy()
	secret.Data = map[string][]byte{"number": want}
	if err := controllerutil.SetControllerReference(owner, secret, r.Scheme()); err != nil {
		return err
	}
	if missing {
		return r.Create(ctx, secret)
	}
	return r.Update(ctx, secret)
}
