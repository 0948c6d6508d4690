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

// user creates, changes and deletes objects, and records what came of each request. None may fail. Meanwhile it changes
// an object that no ring selects, so that a slow machine can be told from a request that waits for Ringmaster.
type user struct {
	scene *scene
	stop  context.CancelFunc
	done  sync.WaitGroup
	// stopReferences and referred are about the reference requests, which end later than the work.
	stopReferences context.CancelFunc
	referred       sync.WaitGroup
	// outage is while the API server is away, which is not Ringmaster's doing.
	outage atomic.Bool

	// working is held while a step is done.
	working sync.Mutex

	mu      sync.Mutex
	objects []string
	created int
	number  int
}

// population is how many objects a user keeps.
const population = 40

func newUser(s *scene) *user { return &user{scene: s, stop: func() {}, stopReferences: func() {}} }

// work begins with a number of objects, and goes on until the scene is judged.
func (u *user) work() {
	u.startReferences()
	for range population {
		u.create()
	}
	ctx, stop := context.WithCancel(context.Background())
	u.stop = stop
	u.done.Go(func() {
		for ctx.Err() == nil {
			u.hold(u.step)
			_ = pause(ctx, upTo(u.scene.random, 300*time.Millisecond))
		}
	})
}

// startReferences begins with the reference requests.
func (u *user) startReferences() {
	ctx, stop := context.WithCancel(context.Background())
	u.stopReferences = stop
	u.referred.Go(func() { u.refer(ctx) })
	u.scene.t.Cleanup(u.end)
}

// reference is the name of an object that no ring selects.
func (u *user) reference() string { return "reference-" + u.scene.ring.Name }

// refer changes an object that no ring selects, again and again.
func (u *user) refer(ctx context.Context) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: u.reference()}}
	created := false
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		var err error
		if created {
			err = u.patch(context.Background(), object, n)
		} else {
			err = client.IgnoreAlreadyExists(u.scene.Client.Create(context.Background(), object))
			created = err == nil
		}
		u.record(&history.Request{Verb: "refer", Took: time.Since(began), Reference: true}, object, err)
		_ = pause(ctx, polling)
	}
}

// patch sets the number that an object has.
func (u *user) patch(ctx context.Context, object *corev1.ConfigMap, number int) error {
	content := fmt.Appendf(nil, `{"data":{"number":"%d"}}`, number)
	return u.scene.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", content))
}

// rest ends the work.
func (u *user) rest() {
	u.stop()
	u.done.Wait()
}

// end ends the work and the reference requests.
func (u *user) end() {
	u.rest()
	u.stopReferences()
	u.referred.Wait()
}

// hold does something while the user does nothing.
func (u *user) hold(do func()) {
	u.working.Lock()
	defer u.working.Unlock()
	do()
}

func (u *user) step() {
	switch n := u.scene.random.IntN(10); {
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

// create makes an object. Some get their names from the API server.
func (u *user) create() {
	const generated = 10
	u.mu.Lock()
	u.created++
	generate := u.created%generated == 0
	u.mu.Unlock()
	u.createNamed(generate)
}

// generate makes an object whose name the API server generates: no webhook can assign it.
func (u *user) generate() {
	u.mu.Lock()
	u.created++
	u.mu.Unlock()
	u.createNamed(true)
}

func (u *user) createNamed(generate bool) {
	u.mu.Lock()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.scene.Namespace, Name: u.scene.objectName(fmt.Sprint("object-", u.created))},
		Data:       map[string]string{"number": "0"},
	}
	if generate {
		object.Name, object.GenerateName = "", "generated-"
	}
	u.mu.Unlock()
	u.ask("create", object, func(ctx context.Context) error { return u.scene.Client.Create(ctx, object) })
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects = append(u.objects, object.Name)
}

// choose returns one of the objects.
func (u *user) choose(take bool) *corev1.ConfigMap {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.number++
	i := u.scene.random.IntN(len(u.objects))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: u.scene.Namespace, Name: u.objects[i]}}
	if take {
		u.objects = append(u.objects[:i], u.objects[i+1:]...)
	}
	return object
}

func (u *user) update() {
	object := u.choose(false)
	u.ask("update", object, func(ctx context.Context) error { return u.patch(ctx, object, u.number) })
}

func (u *user) remove() {
	object := u.choose(true)
	u.ask("delete", object, func(ctx context.Context) error { return u.scene.Client.Delete(ctx, object) })
}

// ask makes a request and records it. While the API server is away, it is repeated.
func (u *user) ask(verb string, object *corev1.ConfigMap, do func(context.Context) error) {
	ctx := context.Background()
	var err error
	var took time.Duration
	for repeated := false; ; repeated = true {
		began := time.Now()
		err, took = do(ctx), time.Since(began)
		if err == nil || repeated && (apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) {
			err = nil // a request whose answer was lost may have been carried out
			break
		}
		if !u.outage.Load() || !away(err) {
			break
		}
		_ = pause(ctx, polling)
	}
	u.record(&history.Request{Verb: verb, Took: took}, object, err)
}

// record records a request and how it ended.
func (u *user) record(request *history.Request, object *corev1.ConfigMap, err error) {
	request.Object = history.Object{Kind: "ConfigMap", Namespace: object.Namespace, Name: object.Name}
	if err != nil {
		request.Error = err.Error()
	}
	u.scene.recorder.Record(history.Event{What: history.Asked, Request: request})
}

// away tells whether an error comes from an API server that is not there, or not yet.
func away(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "http2: client connection") || // in the middle of its answer
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || // it is there, and etcd is not
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		strings.Contains(err.Error(), "TLS handshake timeout") // it listens, and says nothing
}
