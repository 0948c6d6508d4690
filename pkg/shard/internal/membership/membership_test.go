package membership

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// interceptedLeases call a function before each update.
type interceptedLeases struct {
	coordinationv1client.LeasesGetter
	before func(context.Context) error
}

func (l *interceptedLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &interceptedLease{l.LeasesGetter.Leases(namespace), l.before}
}

type interceptedLease struct {
	coordinationv1client.LeaseInterface
	before func(context.Context) error
}

func (l *interceptedLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := l.before(ctx); err != nil {
		return nil, err
	}
	return l.LeaseInterface.Update(ctx, lease, options)
}

func lease(name, holder string, annotations map[string]string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: "ring"}, Annotations: annotations,
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NowMicro())},
	}
}

// newTestLease returns the Lease of a shard named a, with the clock of the synctest bubble.
func newTestLease(existing ...runtime.Object) *Lease {
	began := time.Now()
	return &Lease{
		Client: fake.NewClientset(existing...).CoordinationV1(), Ring: "ring", Namespace: "default", Name: "a",
		clock: func() time.Duration { return time.Since(began) },
	}
}

// TestHungRenewalDoesNotLoseLease has one renewal hang. The next one succeeds in time.
func TestHungRenewalDoesNotLoseLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joined := newTestLease()
		hung := 0
		joined.Client = &interceptedLeases{joined.Client, func(ctx context.Context) error {
			if hung++; hung > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		ctx, stop := context.WithCancel(t.Context())
		err := joined.Run(ctx, func(leaseCtx context.Context, member *Member) {
			select {
			case <-leaseCtx.Done():
			case <-time.After(time.Minute):
				if !member.Valid() {
					t.Error("the lease is not valid after a minute")
				}
			}
			stop()
		})
		if err != nil {
			t.Errorf("got %v", err)
		}
		if hung < 2 {
			t.Error("no renewal hung")
		}
	})
}

// TestRenewalAnnotationsNeedNoMoreWrites counts the writes of a shard whose annotation changes all the time.
func TestRenewalAnnotationsNeedNoMoreWrites(t *testing.T) {
	const annotation = "example.com/number"
	writes := func(change bool) (written int, annotated string) {
		synctest.Test(t, func(t *testing.T) {
			joined := newTestLease()
			joined.Client = &interceptedLeases{joined.Client, func(context.Context) error { written++; return nil }}
			number := 0
			if change {
				joined.RenewalAnnotations = func() map[string]string {
					number++
					return map[string]string{annotation: strconv.Itoa(number)}
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			if err := joined.Run(ctx, func(context.Context, *Member) {
				time.Sleep(time.Minute + time.Second) // between two renewals
				lease, err := joined.Client.Leases("default").Get(ctx, "a", metav1.GetOptions{})
				if err != nil {
					t.Error(err)
				} else {
					annotated = lease.Annotations[annotation]
				}
				stop()
			}); err != nil {
				t.Error(err)
			}
			released, err := joined.Client.Leases("default").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || released.Annotations[annotation] != "" {
				t.Errorf("after the release the annotation is %q: %v", released.Annotations[annotation], err)
			}
		})
		return written, annotated
	}
	without, _ := writes(false)
	with, annotated := writes(true)
	if with != without || without == 0 {
		t.Errorf("%d writes with changing annotations, %d without", with, without)
	}
	if number, err := strconv.Atoi(annotated); err != nil || number < 2 {
		t.Errorf("the annotation is %q after a minute of renewals", annotated)
	}
}

// TestTenureBeginsWithRequest delays the responses to renewals: the API server may have stored a renewal
// at any time since the request was sent.
func TestTenureBeginsWithRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 3 * time.Second
		joined := newTestLease()
		joined.Client = &interceptedLeases{joined.Client, func(context.Context) error {
			time.Sleep(delay)
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		err := joined.Run(ctx, func(leaseCtx context.Context, member *Member) {
			for range 60 {
				before := member.Age()
				if time.Sleep(time.Second); member.Age() < min(before, delay) {
					t.Errorf("a renewal counts from its response: the age of the lease was %s and is %s", before, member.Age())
				}
			}
			if leaseCtx.Err() != nil {
				t.Error("the lease is lost")
			}
			stop()
		})
		if err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestLeaseIsKeptUntilWorkHasEnded stops a process whose work continues for a minute.
func TestLeaseIsKeptUntilWorkHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joined := newTestLease()
		holder := func() string {
			found, err := joined.Client.Leases("default").Get(context.Background(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return *found.Spec.HolderIdentity
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		err := joined.Run(ctx, func(context.Context, *Member) {
			defer close(ended)
			stop()
			time.Sleep(time.Minute)
			if got := holder(); got != "a" {
				t.Errorf("the holder of the lease is %q before the work has ended, want a", got)
			}
		})
		<-ended
		if err != nil {
			t.Errorf("got %v", err)
		}
		if got := holder(); got != "" {
			t.Errorf("the holder of the lease is %q after the work has ended, want none", got)
		}
	})
}

// TestFailedReleaseIsRetried has the requests fail that release a Lease.
func TestFailedReleaseIsRetried(t *testing.T) {
	leases := schema.GroupResource{Resource: "leases"}
	for name, test := range map[string]struct {
		failure  error
		failures int
		want     string // the holder afterwards
		limit    time.Duration
	}{
		"overloaded":  {failure: apierrors.NewTooManyRequests("overload", 1), failures: 8, limit: 2 * time.Second},
		"conflicts":   {failure: apierrors.NewConflict(leases, "a", errors.New("written")), failures: 8, limit: 2 * time.Second},
		"forbidden":   {failure: apierrors.NewForbidden(leases, "a", errors.New("no role")), failures: 1000, want: "a", limit: 0},
		"unreachable": {failure: errors.New("connection refused"), failures: 1000, want: "a", limit: DefaultRenewDeadline + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				joined := newTestLease()
				client := joined.Client.Leases("default")
				var fail atomic.Bool
				failed := 0
				joined.Client = &interceptedLeases{joined.Client, func(context.Context) error {
					if !fail.Load() || failed == test.failures {
						return nil
					}
					failed++
					return test.failure
				}}
				ctx, stop := context.WithCancel(t.Context())
				var stopped time.Time
				err := joined.Run(ctx, func(context.Context, *Member) {
					fail.Store(true)
					stopped = time.Now()
					stop()
				})
				if err != nil {
					t.Errorf("got %v", err)
				}
				if took := time.Since(stopped); took > test.limit {
					t.Errorf("the release took %s", took)
				}
				found, err := client.Get(t.Context(), "a", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := *found.Spec.HolderIdentity; got != test.want {
					t.Errorf("the holder of the lease is %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestLostLeaseIsNotReacquired takes the Lease from a member. The member stops and does not write it.
func TestLostLeaseIsNotReacquired(t *testing.T) {
	for name, test := range map[string]struct {
		take func(context.Context, coordinationv1client.LeaseInterface) error
		want string // the holder afterwards
	}{
		"by the sharder": {func(ctx context.Context, leases coordinationv1client.LeaseInterface) error {
			_, err := leases.Update(ctx, lease("a", shardingv1alpha1.IdentityShardLeaseController, nil), metav1.UpdateOptions{})
			return err
		}, shardingv1alpha1.IdentityShardLeaseController},
		"by a deletion": {func(ctx context.Context, leases coordinationv1client.LeaseInterface) error {
			return leases.Delete(ctx, "a", metav1.DeleteOptions{})
		}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				joined := newTestLease()
				leases := joined.Client.Leases("default")
				var taken atomic.Bool
				joined.Client = &interceptedLeases{joined.Client, func(context.Context) error {
					if taken.CompareAndSwap(true, false) { // the API server would compare versions
						return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "a", errors.New("another client has written it"))
					}
					return nil
				}}
				err := joined.Run(t.Context(), func(leaseCtx context.Context, _ *Member) {
					taken.Store(true)
					if err := test.take(leaseCtx, leases); err != nil {
						t.Error(err)
					}
					select {
					case <-leaseCtx.Done():
					case <-time.After(time.Minute):
						t.Error("the work continues although the lease is lost")
					}
				})
				if !errors.Is(err, ErrLeaseLost) {
					t.Errorf("got %v", err)
				}
				holder := "none"
				if found, err := leases.Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
					holder = *found.Spec.HolderIdentity
				}
				if holder != test.want {
					t.Errorf("the holder of the lease is %q, want %q", holder, test.want)
				}
			})
		})
	}
}

// TestLostLeaseIsNotRenewed renews a Lease without another read, as leader election does after a failed
// read.
func TestLostLeaseIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joined := newTestLease()
		leases := joined.Client.Leases("default")
		_ = joined.Run(t.Context(), func(leaseCtx context.Context, member *Member) {
			record, _, err := member.Get(leaseCtx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := leases.Update(leaseCtx, lease("a", shardingv1alpha1.IdentityShardLeaseController, nil), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := member.Get(leaseCtx); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("the read returned %v", err)
			}
			if err := member.Update(t.Context(), *record); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("the renewal returned %v", err)
			}
		})
		if found, err := leases.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || *found.Spec.HolderIdentity != shardingv1alpha1.IdentityShardLeaseController {
			t.Errorf("the lease is %v, %v", found, err)
		}
	})
}

// TestSuspendedMachineIsNotAMember advances the clock as a suspended machine does.
func TestSuspendedMachineIsNotAMember(t *testing.T) {
	var now time.Duration
	tenure := newTenure(10*time.Second, func() time.Duration { return now })
	if tenure.Valid() {
		t.Error("the tenure is valid before the first renewal")
	}
	tenure.markRenewed(now)
	if now += 9 * time.Second; !tenure.Valid() {
		t.Error("the tenure is not valid before the deadline")
	}
	if now += time.Hour; tenure.Valid() {
		t.Error("the tenure is valid after the machine was suspended")
	}
}

func TestBootClockAdvances(t *testing.T) {
	before, sinceProcess := sinceBoot(), sinceStart()
	time.Sleep(10 * time.Millisecond)
	if sinceBoot()-before < 10*time.Millisecond || sinceStart()-sinceProcess < 10*time.Millisecond {
		t.Error("the clock does not advance")
	}
}

// TestClaimWaitsForLongerLease finds the Lease of another process, with another duration.
func TestClaimWaitsForLongerLease(t *testing.T) {
	t.Setenv("POD_UID", "pod")
	for name, test := range map[string]struct {
		seconds  int32
		instance string
		want     time.Duration
	}{
		"longer":          {40, "other_1", 40 * time.Second},
		"shorter":         {5, "other_1", 15 * time.Second},
		"excessive":       {1 << 30, "other_1", time.Hour},
		"in the same pod": {40, podIdentity() + "_1", 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := lease("a", "a", map[string]string{shardingv1alpha1.AnnotationInstance: test.instance})
				other.Spec.LeaseDurationSeconds = &test.seconds
				start := time.Now()
				if err := newMember(*newTestLease(other)).claim(t.Context()); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(start); waited != test.want {
					t.Errorf("it waited for %s, want %s", waited, test.want)
				}
			})
		})
	}
}

// TestClaimLogsItsWait finds the Lease of an earlier process. Without the pod's UID, the message says how to
// shorten the wait.
func TestClaimLogsItsWait(t *testing.T) {
	other := lease("a", "a", map[string]string{shardingv1alpha1.AnnotationInstance: "other_1"})
	for name, test := range map[string]struct {
		existing []runtime.Object
		uid      string
		want     []string
	}{
		"without the pod's UID": {[]runtime.Object{other}, "", []string{"Waiting for the lease of an earlier process. Set POD_UID default/a 15s"}},
		"in another pod":        {[]runtime.Object{other}, "pod", []string{"Waiting for the lease of an earlier process default/a 15s"}},
		"no wait":               {nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_UID", test.uid)
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				log := funcr.NewJSON(func(line string) {
					var entry struct{ Msg, Lease, Wait string }
					if err := json.Unmarshal([]byte(line), &entry); err != nil {
						t.Error(err)
					}
					message, _, _ := strings.Cut(entry.Msg, " from ")
					lines = append(lines, message+" "+entry.Lease+" "+entry.Wait)
				}, funcr.Options{})
				if err := newMember(*newTestLease(test.existing...)).claim(klog.NewContext(t.Context(), log)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, lines); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestClaimRefusesNameOfLiveProcess has another process renew the Lease.
func TestClaimRefusesNameOfLiveProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := lease("a", "a", map[string]string{shardingv1alpha1.AnnotationInstance: "other_1"})
		joining := newTestLease(other)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for sleep(ctx, DefaultRetryPeriod) {
				renewed := other.DeepCopy()
				renewed.Spec.RenewTime = new(metav1.NowMicro())
				if _, err := joining.Client.Leases("default").Update(ctx, renewed, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			}
		}()
		if err := newMember(*joining).claim(t.Context()); !errors.Is(err, ErrNameTaken) {
			t.Errorf("got %v, want %v", err, ErrNameTaken)
		}
	})
}

// TestPeers has a Lease in each state of another shard.
func TestPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving := map[string]string{shardingv1alpha1.AnnotationLeaving: "true"}
		joined := newTestLease(lease("a", "a", nil), lease("b", "b", nil), lease("released", "", nil),
			lease("dead", shardingv1alpha1.IdentityShardLeaseController, nil), lease("leaving", "leaving", leaving))
		peers := &Peers{Lease: joined}
		for shard, want := range map[string]bool{"a": false, "b": true, "released": false, "dead": false, "leaving": false, "other": false} {
			if got := peers.Contains(t.Context(), shard); got != want {
				t.Errorf("%s is a peer: %t, want %t", shard, got, want)
			}
		}
		next := func(want string) {
			t.Helper()
			if got, ok, err := peers.Next(t.Context(), "key"); err != nil || !ok || got != want {
				t.Errorf("the next owner is %q, %t, %v, want %q", got, ok, err, want)
			}
		}
		next("b")
		update := func(changed *coordinationv1.Lease) {
			t.Helper()
			if _, err := joined.Client.Leases("default").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * viewTTL)
		}
		t.Log("The only other shard leaves, too")
		update(lease("b", "b", leaving))
		if _, ok, err := peers.Next(t.Context(), "key"); ok || err != nil {
			t.Errorf("got a peer although all others are leaving: %t, %v", ok, err)
		}
		t.Log("A shard in another namespace is not visible")
		update(lease("b", "b", nil))
		update(lease("a", "a", map[string]string{shardingv1alpha1.AnnotationPeersElsewhere: "true"}))
		next("")
	})
}
