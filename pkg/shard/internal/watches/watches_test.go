package watches_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/watches"
)

const (
	// maxRetryDelay bounds the delay between two attempts of a process, and maxResumeJitter the delay before a
	// watch resumes when the outage has ended.
	maxRetryDelay, maxResumeJitter = 1500 * time.Millisecond, time.Second
	// maxRelistDelay bounds the first delay of the reflector, which relists if the server has no history.
	maxRelistDelay = 1600 * time.Millisecond
)

// TestWatchesResumeSoonAfterOutage restarts an API server without history, which refuses all requests for a
// while after its start. With client-go alone, the last watch would resume up to half a minute later.
func TestWatchesResumeSoonAfterOutage(t *testing.T) {
	const processes, watchesEach = 3, 10
	for name, outage := range map[string]time.Duration{
		"2s": 2 * time.Second, "5s": 5 * time.Second, "15s": 15 * time.Second, "10m": 10 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{}
				stop := runInformers(watches.Configure, server.clients(processes, watchesEach)...)
				defer stop()
				time.Sleep(time.Minute)
				if got, want := server.watching(), processes*watchesEach; got != want {
					t.Fatalf("%d of %d watches are open before the outage", got, want)
				}
				server.stop()
				time.Sleep(outage)
				server.answer(apierrors.NewForbidden(configMaps, "", errors.New("roles are not loaded")))
				time.Sleep(4 * time.Second)
				server.start()
				time.Sleep(maxRetryDelay + maxResumeJitter + maxRelistDelay)
				synctest.Wait()
				if got, want := server.watching(), processes*watchesEach; got != want {
					t.Errorf("%d of %d watches have resumed", got, want)
				}
			})
		})
	}
}

// TestWatchesResumeAfterRandomOutages has outages and errors in random order.
func TestWatchesResumeAfterRandomOutages(t *testing.T) {
	const processes, watchesEach, runs, changes = 2, 5, 200, 30
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for run := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, run))
		synctest.Test(t, func(t *testing.T) {
			server := &fakeServer{}
			stop := runInformers(watches.Configure, server.clients(processes, watchesEach)...)
			defer stop()
			for range changes {
				time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
				switch random.IntN(6) {
				case 0, 1:
					server.stop()
				case 2:
					server.start()
				case 3:
					server.answer(apierrors.NewForbidden(configMaps, "", errors.New("roles are not loaded")))
				case 4:
					server.answer(apierrors.NewTooManyRequests("overload", 1))
				case 5:
					server.answer(os.NewSyscallError("read", syscall.ECONNRESET))
				}
			}
			server.start()
			const maxBackoff = time.Minute // of a reflector, after errors that reached it
			time.Sleep(maxBackoff + maxRetryDelay + maxResumeJitter + maxBackoff)
			synctest.Wait()
			if got, want := server.watching(), processes*watchesEach; got != want {
				t.Errorf("run %d: %d of %d watches have resumed", run, got, want)
			}
		})
	}
}

// TestLoadDuringOutageDoesNotGrowWithWatches counts the requests that an unreachable or starting API server
// receives from 20 processes with 10 watches each.
func TestLoadDuringOutageDoesNotGrowWithWatches(t *testing.T) {
	const processes, watchesEach = 20, 10
	for name, reply := range map[string]error{
		"unreachable": errRefused,
		"starting":    apierrors.NewForbidden(configMaps, "", errors.New("roles are not loaded")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{}
				stop := runInformers(watches.Configure, server.clients(processes, watchesEach)...)
				defer stop()
				time.Sleep(time.Minute)
				server.stop()
				time.Sleep(time.Second) // each watch detects the outage with its own request
				server.answer(reply)
				begin := time.Now()
				const observed = 25 * time.Second
				time.Sleep(observed)
				synctest.Wait()

				requests := server.since(begin)
				for process, own := range byProcess(requests) {
					if most := maxRequestsIn(time.Second, own); most > 2 {
						t.Errorf("process %d sent %d requests in one second", process, most)
					}
				}
				if mean := float64(len(requests)) / observed.Seconds() / processes; mean < 0.8 || mean > 1.25 {
					t.Errorf("a process sent %.2f requests per second on average, want about 1", mean)
				}
				// The mean is 2. More than half of the processes have a probability below 1e-6.
				if most := maxRequestsIn(100*time.Millisecond, requests); most > processes/2 {
					t.Errorf("%d of %d processes sent a request in the same tenth of a second", most, processes)
				}
			})
		})
	}
}

// TestAnswersReachReflector checks that a request is sent once if the API server answers.
func TestAnswersReachReflector(t *testing.T) {
	for name, reply := range map[string]error{
		"accepted":      nil,
		"overloaded":    apierrors.NewTooManyRequests("overload", 5),
		"unavailable":   apierrors.NewServiceUnavailable("no backend"),
		"forbidden":     apierrors.NewForbidden(configMaps, "", errors.New("no role")),
		"unauthorized":  apierrors.NewUnauthorized("no token"),
		"expired":       apierrors.NewResourceExpired("too old resource version"),
		"internal":      apierrors.NewInternalError(errors.New("no etcd")),
		"not the API":   errors.New("x509: certificate signed by unknown authority"),
		"request ended": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				server := &fakeServer{reply: reply}
				objects := configured(t, (&fakeClient{fakeServer: server}).listWatch())
				if _, err := objects.WatchWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, reply) {
					t.Errorf("the watch returned %v", err)
				}
				if _, err := objects.ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, reply) {
					t.Errorf("the list returned %v", err)
				}
				if got := len(server.requests); got != 2 {
					t.Errorf("the server received %d requests for a watch and a list", got)
				}
			})
		})
	}
}

// TestUnreachableServerIsRetried has lists and watches wait for the API server.
func TestUnreachableServerIsRetried(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, reply := range map[string]error{
		"refused":  dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"no route": dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
		"timeout":  dial(os.ErrDeadlineExceeded),
		"no name":  dial(&net.DNSError{Err: "server misbehaving", Name: "api"}),
		"no proxy": &net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))},
		"reset":    os.NewSyscallError("read", syscall.ECONNRESET),
		"lost":     errors.New("http2: client connection lost"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{reply: reply}
				time.AfterFunc(time.Minute, server.start)
				objects := configured(t, (&fakeClient{fakeServer: server}).listWatch())
				if _, err := objects.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
					t.Errorf("the list returned %v", err)
				}
				server.answer(reply)
				time.AfterFunc(time.Minute, server.start)
				if _, err := objects.WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
					t.Errorf("the watch returned %v", err)
				}
			})
		})
	}
}

// TestOverloadAfterOutageReachesReflector has a server that is overloaded after an outage. The reflector's
// backoff applies at once.
func TestOverloadAfterOutageReachesReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{reply: errRefused}
		overloaded := apierrors.NewTooManyRequests("overload", 5)
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { server.answer(overloaded) })
		objects := configured(t, (&fakeClient{fakeServer: server}).listWatch())
		if _, err := objects.WatchWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, overloaded) {
			t.Errorf("the watch returned %v", err)
		}
		if answered := server.since(began.Add(10 * time.Second)); len(answered) != 1 {
			t.Errorf("the overloaded server received %d requests", len(answered))
		}
	})
}

// TestServerThatKeepsRefusingIsReported removes a permission during an outage.
func TestServerThatKeepsRefusingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{reply: errRefused}
		forbidden := apierrors.NewForbidden(configMaps, "", errors.New("no role"))
		time.AfterFunc(10*time.Second, func() { server.answer(forbidden) })
		objects := configured(t, (&fakeClient{fakeServer: server}).listWatch())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if _, err := objects.WatchWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, forbidden) {
			t.Errorf("the watch returned %v", err)
		}
		const startupTimeout = 30 * time.Second
		if took := time.Since(began); took < startupTimeout || took > 10*time.Second+startupTimeout+maxRetryDelay {
			t.Errorf("the error was reported after %s", took)
		}
	})
}

// TestForbiddenKindDoesNotDelayOthers has one kind that the process may not read.
func TestForbiddenKindDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{}
		clients := server.clients(1, 5)
		forbidden := &fakeClient{fakeServer: server, always: apierrors.NewForbidden(configMaps, "", errors.New("no role"))}
		stop := runInformers(watches.Configure, append([]*fakeClient{forbidden}, clients...)...)
		defer stop()
		time.Sleep(10 * time.Minute)
		server.stop()
		time.Sleep(2 * time.Minute) // the reflector of the forbidden kind waits for at most a minute
		server.start()
		time.Sleep(2*maxRetryDelay + maxResumeJitter + maxRelistDelay)
		synctest.Wait()
		if got := server.watching(); got != len(clients) {
			t.Errorf("%d of %d watches have resumed", got, len(clients))
		}
	})
}

// TestInformersStopAtOnceDuringOutage stops informers before and after their first list.
func TestInformersStopAtOnceDuringOutage(t *testing.T) {
	for name, synced := range map[string]bool{"before the first list": false, "while watching": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{}
				if !synced {
					server.stop()
				}
				stop := runInformers(watches.Configure, server.clients(1, 5)...)
				time.Sleep(10 * time.Second)
				server.stop()
				time.Sleep(10 * time.Second)
				began := time.Now()
				stop()
				if took := time.Since(began); took > 0 {
					t.Errorf("the informers stopped after %s", took)
				}
				if len(server.reports) > 0 {
					t.Errorf("the informers reported %v", server.reports)
				}
			})
		})
	}
}

// TestNewInformerOfUserIsKept checks that the user's function gets the arguments of controller-runtime.
func TestNewInformerOfUserIsKept(t *testing.T) {
	var called bool
	options := cache.Options{NewInformer: func(
		objects toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		called = true
		if listWatch, ok := objects.(*toolscache.ListWatch); !ok || !listWatch.DisableChunking {
			t.Errorf("the ListerWatcher is a %T, or DisableChunking is lost", objects)
		}
		if resync != time.Hour {
			t.Errorf("the resync period is %s", resync)
		}
		return toolscache.NewSharedIndexInformer(objects, example, resync, indexers)
	}}
	watches.Configure(&options)
	options.NewInformer(&toolscache.ListWatch{DisableChunking: true}, &corev1.ConfigMap{}, time.Hour, toolscache.Indexers{})
	if !called {
		t.Error("the user's NewInformer was not called")
	}
}

// TestListsAreStreamedIfSupported checks that the reflector detects whether a ListerWatcher can stream lists.
func TestListsAreStreamedIfSupported(t *testing.T) {
	for name, test := range map[string]struct {
		wrap func(*toolscache.ListWatch) toolscache.ListerWatcher
		want []string
	}{
		"supported": {
			func(objects *toolscache.ListWatch) toolscache.ListerWatcher { return objects },
			[]string{"stream"},
		},
		"unsupported": {
			func(objects *toolscache.ListWatch) toolscache.ListerWatcher {
				return toolscache.ToListWatcherWithWatchListSemantics(objects, nonStreamingClient{})
			},
			[]string{"list", "watch"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{}
				options := cache.Options{}
				watches.Configure(&options)
				objects := test.wrap((&fakeClient{fakeServer: server}).listWatch())
				ctx, cancel := context.WithCancel(t.Context())
				go options.NewInformer(objects, &corev1.ConfigMap{}, 0, toolscache.Indexers{}).RunWithContext(ctx)
				time.Sleep(time.Second)
				cancel()
				synctest.Wait()
				var verbs []string
				for _, r := range server.requests {
					verbs = append(verbs, r.verb)
				}
				if !slices.Equal(verbs, test.want) {
					t.Errorf("the informer sent %v, want %v", verbs, test.want)
				}
			})
		})
	}
}

// nonStreamingClient is a client that cannot stream lists.
type nonStreamingClient struct{}

func (nonStreamingClient) IsWatchListSemanticsUnSupported() bool { return true }

// configured returns the ListerWatcher that informers get.
func configured(t *testing.T, objects *toolscache.ListWatch) *toolscache.ListWatch {
	t.Helper()
	var passed *toolscache.ListWatch
	options := cache.Options{NewInformer: func(
		objects toolscache.ListerWatcher, _ runtime.Object, _ time.Duration, _ toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		passed = objects.(*toolscache.ListWatch)
		return nil
	}}
	watches.Configure(&options)
	options.NewInformer(objects, nil, 0, nil)
	return passed
}
