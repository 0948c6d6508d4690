package bench

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

var (
	restFor    = flag.Duration("rest", time.Minute, "how long to measure the sharder's CPU time while shards only renew their Leases")
	profilesTo = flag.String("profiles", "", "directory for profiles of the idle sharder (default: none)")
)

// BenchmarkMembers measures the sharder while shards only renew their Leases, and then one shard joins.
func BenchmarkMembers(b *testing.B) {
	for _, size := range []struct {
		rings, shards int
		renew         time.Duration
		cpu, memory   string
	}{
		{50, 10, 2 * time.Second, "at most 6 [before: 9.3, public: 5.7]", "at most 60 [before: 114, public: 58]"},
		// This is about memory. Renewals every 2 s would measure the API server.
		{200, 10, 8 * time.Second, "", "at most 100"},
		{1, 200, 2 * time.Second, "at most 2.2 [before: 5.6, public: 2.2]", "at most 70 [before: 117, public: 56]"},
	} {
		b.Run(fmt.Sprintf("%dx%d", size.rings, size.shards), func(b *testing.B) {
			for b.Loop() {
				f := &fixture{Rig: rig.Private(b, rig.Options{CRDs: []string{"config/crds"}}), WithT: NewWithT(b), b: b}
				f.SetDefaultEventuallyTimeout(timeout)
				f.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
				f.rings(size.rings)
				shards := f.renewing(size.renew)
				sharder := f.profiled()
				f.parallel(size.rings*size.shards, 8, func(i int) error {
					return shards.add(ringNumber(i/size.shards), fmt.Sprintf("shard-%d", i%size.shards))
				})
				for i := range size.rings {
					f.available(ringNumber(i), size.shards)
				}
				time.Sleep(*restFor / 2) // events and first resyncs
				before, renewals := used(b, sharder.PID()).CPU, shards.renewals.Load()
				time.Sleep(*restFor)
				cpu := used(b, sharder.PID()).CPU - before
				renewals = shards.renewals.Load() - renewals
				f.profile(sharder, fmt.Sprintf("%dx%d", size.rings, size.shards))
				memory := used(b, sharder.PID())
				took := f.joined(shards, size.shards)
				prefix := fmt.Sprintf("%d rings with %d shards, renewing every %s: ", size.rings, size.shards, size.renew)
				// On a busy machine not all renewals are in time. Dividing by their share overestimates the CPU time for all of
				// them, because some of it does not grow with their number.
				share := float64(renewals) * size.renew.Seconds() / restFor.Seconds() / float64(size.rings*size.shards)
				f.figure(prefix+"renewals, as a share of those that were due", share, "x-renewals", "about 1")
				f.figure(prefix+"CPU", 100*cpu.Seconds()/restFor.Seconds()/share, "%-core", size.cpu)
				f.figure(prefix+"memory while idle", memory.Resident/mebibyte, "MiB", size.memory)
				f.figure(prefix+"memory, peak", memory.Peak/mebibyte, "MiB-peak", size.memory)
				f.figure(prefix+"memory, peak with a join", used(b, sharder.PID()).Peak/mebibyte, "MiB-joined", size.memory)
				f.figure(prefix+"time until a join is handled", took.Seconds(), "s-join", "below 1")
				f.Expect(shards.failures.Load()).To(BeZero(), "shards that have lost their Leases")
			}
		})
	}
}

func ringNumber(i int) string { return fmt.Sprintf("ring-%03d", i) }

// rings creates rings that select one namespace each. Only the namespace of the first exists.
func (f *fixture) rings(n int) {
	f.b.Helper()
	for i := range n {
		namespace := ringNumber(i)
		if i == 0 {
			namespace = f.Namespace
		}
		f.Expect(f.Client.Create(f.b.Context(), &shardingv1alpha1.ControllerRing{
			ObjectMeta: metav1.ObjectMeta{Name: ringNumber(i)},
			Spec: shardingv1alpha1.ControllerRingSpec{
				Resources: []shardingv1alpha1.RingResource{{
					GroupResource:       shardingv1alpha1.GroupResource{Resource: mains.Resource},
					ControlledResources: []shardingv1alpha1.GroupResource{{Resource: children.Resource}},
				}},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			},
		})).To(Succeed())
	}
}

// profiled starts the sharder as it is shipped. It serves profiles.
func (f *fixture) profiled() *rig.Sharder {
	f.b.Helper()
	return f.StartSharder(f.b, rig.SharderOptions{
		Roles: []string{"test/bench/testdata/ring-role.yaml"}, Shipped: true,
		// A busy machine must not make it lose its Lease.
		Config: fmt.Sprintf("leaderElection: {leaseDuration: 120s, renewDeadline: 100s, retryPeriod: 5s}\ndebugging: {enableProfiling: %t}", *profilesTo != ""),
	})
}

// available waits until a ring has a number of available shards.
func (f *fixture) available(name string, shards int) {
	f.b.Helper()
	f.Eventually(func(g Gomega) {
		declared := &shardingv1alpha1.ControllerRing{}
		g.Expect(f.Client.Get(context.Background(), client.ObjectKey{Name: name}, declared)).To(Succeed())
		g.Expect(declared.Status.AvailableShards).To(BeEquivalentTo(shards))
	}).Should(Succeed())
}

// leaseRenewer renews Leases as shards do, without the shards.
type leaseRenewer struct {
	f         *fixture
	clientset kubernetes.Interface
	every     time.Duration
	ctx       context.Context
	// renewals is the number of renewals, failures the number of shards that have lost their Leases.
	renewals, failures atomic.Int64
}

func (f *fixture) renewing(every time.Duration) *leaseRenewer {
	f.b.Helper()
	config := rest.CopyConfig(f.Config)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfig(config)
	f.Expect(err).NotTo(HaveOccurred())
	return &leaseRenewer{f: f, clientset: clientset, every: every, ctx: f.b.Context()}
}

// add makes a shard join a ring. Shards of different rings may have the same name.
func (r *leaseRenewer) add(ringName, name string) error {
	holder, seconds, now := ringName+"-"+name, int32(15), metav1.NowMicro()
	lease, err := r.clientset.CoordinationV1().Leases(r.f.Namespace).Create(r.ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: holder, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ringName}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err == nil {
		go r.keep(lease)
	}
	return err
}

func (r *leaseRenewer) keep(lease *coordinationv1.Lease) {
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-ticker.C:
		}
		for {
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			renewed, err := r.clientset.CoordinationV1().Leases(lease.Namespace).Update(r.ctx, lease, metav1.UpdateOptions{})
			if err == nil {
				lease = renewed
				r.renewals.Add(1)
				break
			}
			if apierrors.IsConflict(err) { // the sharder has written the state label
				lease, err = r.clientset.CoordinationV1().Leases(lease.Namespace).Get(r.ctx, lease.Name, metav1.GetOptions{})
				if err == nil && *lease.Spec.HolderIdentity == lease.Name {
					continue
				}
			}
			if r.ctx.Err() == nil {
				r.failures.Add(1)
			}
			return
		}
	}
}

// joined adds a shard to the first ring, and returns how long it takes until the ring's status includes it and an object is
// assigned to it.
func (f *fixture) joined(shards *leaseRenewer, before int) time.Duration {
	f.b.Helper()
	first := ringNumber(0)
	names := make([]string, before+1)
	for i := range names {
		names[i] = fmt.Sprintf("%s-shard-%d", first, i)
	}
	newcomer, after := names[before], ring.New(names)
	requested := time.Now()
	f.Expect(shards.add(first, fmt.Sprintf("shard-%d", before))).To(Succeed())
	began, attempts := time.Now(), 0
	for i := 0; ; i++ {
		name := fmt.Sprintf("object-%d", i)
		if after.Owner(f.key(name)) != newcomer {
			continue
		}
		created, err := f.create(f.Namespace, name)
		f.Expect(err).NotTo(HaveOccurred())
		attempts++
		if created.Labels[shardingv1alpha1.LabelShard(first)] == newcomer {
			break
		}
		f.Expect(time.Since(began)).To(BeNumerically("<", timeout))
		time.Sleep(10 * time.Millisecond)
	}
	// On a busy machine most of this is the API server.
	f.b.Logf("the API server took %s to create the Lease; object number %d was assigned to the new shard, after %s",
		began.Sub(requested), attempts, time.Since(began))
	f.available(first, before+1)
	return time.Since(began)
}
