package robustness_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// user creates, changes and deletes objects, and records the result of each request. None may fail. Meanwhile it changes
// an object that no ring selects, to distinguish a slow machine from requests that wait for Ringmaster.
type user struct {
	scenario *scenario
	stop     context.CancelFunc
	done     sync.WaitGroup
	// stopReferences ends the reference requests, which continue after the work, and references waits for them.
	stopReferences context.CancelFunc
	references     sync.WaitGroup
	// outage is whether the test has stopped the API server, so that requests are retried.
	outage atomic.Bool

	// working is locked during a step.
	working sync.Mutex

	mu      sync.Mutex
	objects []string
	created int
	number  int
}

// population is the number of objects of a user.
const population = 40

func newUser(s *scenario) *user {
	return &user{scenario: s, stop: func() {}, stopReferences: func() {}}
}

// start creates the objects, and continues to change them until the history is checked.
func (u *user) start() {
	u.startReferences()
	for range population {
		u.create()
	}
	ctx, stop := context.WithCancel(context.Background())
	u.stop = stop
	u.done.Go(func() {
		for ctx.Err() == nil {
			u.whilePaused(u.step)
			_ = pause(ctx, upTo(u.scenario.random, 300*time.Millisecond))
		}
	})
}

// startReferences starts the reference requests.
func (u *user) startReferences() {
	ctx, stop := context.WithCancel(context.Background())
	u.stopReferences = stop
	u.references.Go(func() { u.sendReferences(ctx) })
	u.scenario.t.Cleanup(u.close)
}

// reference returns the name of an object that no ring selects.
func (u *user) reference() string { return "reference-" + u.scenario.ring.Name }

// sendReferences changes an object that no ring selects repeatedly.
func (u *user) sendReferences(ctx context.Context) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: u.reference()}}
	created := false
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		var err error
		if created {
			err = u.patch(context.Background(), object, n)
		} else {
			err = client.IgnoreAlreadyExists(u.scenario.Client.Create(context.Background(), object))
			created = err == nil
		}
		u.record(&history.Request{Verb: "refer", Took: time.Since(began), Reference: true}, object, err)
		_ = pause(ctx, polling)
	}
}

// patch sets the number in an object.
func (u *user) patch(ctx context.Context, object *corev1.ConfigMap, number int) error {
	content := fmt.Appendf(nil, `{"data":{"number":"%d"}}`, number)
	return u.scenario.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", content))
}

// stopWork ends the work.
func (u *user) stopWork() {
	u.stop()
	u.done.Wait()
}

// close ends the work and the reference requests.
func (u *user) close() {
	u.stopWork()
	u.stopReferences()
	u.references.Wait()
}

// whilePaused calls a function while the user sends no requests.
func (u *user) whilePaused(do func()) {
	u.working.Lock()
	defer u.working.Unlock()
	do()
}

func (u *user) step() {
	switch n := u.scenario.random.IntN(10); {
	case n < 2 || u.count() < population:
		u.create()
	case n < 4:
		u.remove()
	default:
		u.update()
	}
}

func (u *user) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.objects)
}

// create creates an object, sometimes with a generated name.
func (u *user) create() {
	const generated = 10
	u.mu.Lock()
	u.created++
	generate := u.created%generated == 0
	u.mu.Unlock()
	u.createNamed(generate)
}

// createGenerated creates an object with a generated name, which no webhook can assign.
func (u *user) createGenerated() {
	u.mu.Lock()
	u.created++
	u.mu.Unlock()
	u.createNamed(true)
}

func (u *user) createNamed(generate bool) {
	u.mu.Lock()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.scenario.Namespace, Name: u.scenario.objectName(fmt.Sprint("object-", u.created))},
		Data:       map[string]string{"number": "0"},
	}
	if generate {
		object.Name, object.GenerateName = "", "generated-"
	}
	u.mu.Unlock()
	u.send("create", object, func(ctx context.Context) error { return u.scenario.Client.Create(ctx, object) })
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects = append(u.objects, object.Name)
}

// choose returns one of the objects, and removes it with take.
func (u *user) choose(take bool) *corev1.ConfigMap {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.number++
	i := u.scenario.random.IntN(len(u.objects))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: u.scenario.Namespace, Name: u.objects[i]}}
	if take {
		u.objects = append(u.objects[:i], u.objects[i+1:]...)
	}
	return object
}

func (u *user) update() {
	object := u.choose(false)
	u.send("update", object, func(ctx context.Context) error { return u.patch(ctx, object, u.number) })
}

func (u *user) remove() {
	object := u.choose(true)
	u.send("delete", object, func(ctx context.Context) error { return u.scenario.Client.Delete(ctx, object) })
}

// send sends a request and records it. During an outage, it retries.
func (u *user) send(verb string, object *corev1.ConfigMap, do func(context.Context) error) {
	ctx := context.Background()
	var err error
	var took time.Duration
	for repeated := false; ; repeated = true {
		began := time.Now()
		err, took = do(ctx), time.Since(began)
		if err == nil || repeated && (apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) {
			err = nil // an earlier attempt without a response may have been applied
			break
		}
		if !u.outage.Load() || !isOutage(err) {
			break
		}
		_ = pause(ctx, polling)
	}
	u.record(&history.Request{Verb: verb, Took: took}, object, err)
}

// record records a request and its result.
func (u *user) record(request *history.Request, object *corev1.ConfigMap, err error) {
	request.Object = history.Object{Kind: "ConfigMap", Namespace: object.Namespace, Name: object.Name}
	if err != nil {
		request.Error = err.Error()
	}
	u.scenario.recorder.Record(history.Event{Type: history.Requested, Request: request})
}

// isOutage reports whether an error comes from an API server that is unreachable or starting.
func isOutage(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "http2: client connection") || // during a response
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || // etcd is unreachable
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		strings.Contains(err.Error(), "TLS handshake timeout") // it is paused
}
