package watches_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var (
	errRefused = syscall.ECONNREFUSED
	configMaps = schema.GroupResource{Resource: "configmaps"}
)

// fakeServer is an API server that only accepts or refuses requests, and ends watches.
type fakeServer struct {
	mu       sync.Mutex
	reply    error         // to every request; nil accepts it
	starts   int           // number of starts
	requests []fakeRequest // received
	reports  []error       // of reflectors
	watches  []*watch.RaceFreeFakeWatcher
}

type fakeRequest struct {
	at      time.Time
	process int
	verb    string // list, stream or watch
}

// stop ends all watches and refuses connections.
func (s *fakeServer) stop() {
	s.answer(errRefused)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

func (s *fakeServer) start() {
	s.answer(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
}

func (s *fakeServer) answer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = err
}

// watching returns the number of open watches.
func (s *fakeServer) watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// since returns the requests from a time on.
func (s *fakeServer) since(begin time.Time) []fakeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r fakeRequest) bool { return r.at.Before(begin) })
}

// fakeClient is the client of one informer of a process.
type fakeClient struct {
	*fakeServer
	process int
	always  error // reply to this client when the server accepts requests, or nil
	known   int   // the start of the server whose history includes the client's version
}

func (c *fakeClient) send(verb string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, fakeRequest{at: time.Now(), process: c.process, verb: verb})
	if c.reply == nil && c.always != nil {
		return c.always
	}
	return c.reply
}

func (c *fakeClient) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	if err := c.send("list"); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = c.starts
	return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (c *fakeClient) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	stream := options.SendInitialEvents != nil && *options.SendInitialEvents
	verb := "watch"
	if stream {
		verb = "stream"
	}
	if err := c.send(verb); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := watch.NewRaceFreeFake()
	switch {
	case stream:
		c.known = c.starts
		w.Action(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	case c.known != c.starts: // the server was restarted and has no history
		expired := apierrors.NewResourceExpired("too old resource version").Status()
		w.Action(watch.Error, &expired)
		return w, nil
	}
	c.watches = append(c.watches, w)
	return w, nil
}

// runInformers runs the informers of some processes until stop is called.
func runInformers(configure func(*cache.Options), clients ...*fakeClient) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	processes := map[int]*cache.Options{}
	for _, c := range clients {
		if processes[c.process] == nil {
			processes[c.process] = &cache.Options{NewInformer: toolscache.NewSharedIndexInformer}
			configure(processes[c.process])
		}
		informer := processes[c.process].NewInformer(c.listWatch(), &corev1.ConfigMap{}, 0, toolscache.Indexers{})
		// The default handler sleeps on a clock that all tests share, and their fake times differ.
		if err := informer.SetWatchErrorHandlerWithContext(c.report); err != nil {
			panic(err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func (c *fakeClient) report(_ context.Context, _ *toolscache.Reflector, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports = append(c.reports, err)
}

func (c *fakeClient) listWatch() *toolscache.ListWatch {
	return &toolscache.ListWatch{ListWithContextFunc: c.ListWithContext, WatchFuncWithContext: c.WatchWithContext}
}

// clients returns the clients of processes with the same number of informers each.
func (s *fakeServer) clients(processes, informers int) []*fakeClient {
	var all []*fakeClient
	for process := range processes {
		for range informers {
			all = append(all, &fakeClient{fakeServer: s, process: process})
		}
	}
	return all
}

// maxRequestsIn returns the highest number of requests in any period of the given length.
func maxRequestsIn(period time.Duration, requests []fakeRequest) int {
	most, first := 0, 0
	for i, r := range requests {
		for r.at.Sub(requests[first].at) >= period {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func byProcess(requests []fakeRequest) map[int][]fakeRequest {
	all := map[int][]fakeRequest{}
	for _, r := range requests {
		all[r.process] = append(all[r.process], r)
	}
	return all
}
