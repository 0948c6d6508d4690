package bench

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

var (
	objects = flag.Int("objects", 1000, "number of main objects, with a child each, for a stop, a kill and a rollout")
	// A scale-out moves a third of them. With few, most of the time would be that until it begins.
	scaleOutObjects = flag.Int("scale-out-objects", 10000, "number of main objects, with a child each, for a scale-out")
)

const (
	handovers = 50  // concurrent writes of a stopping shard
	moves     = 100 // concurrent writes of the sharder
	pause     = 20 * time.Second
)

// three returns a ring of three shards whose objects have their final owners.
func three(b *testing.B, env ...string) (*fixture, *observer, func(string)) {
	b.Helper()
	f := setUp(b)
	f.populate(0, *objects, "a", "b", "c")
	f.sharder(5 * time.Minute)
	running := f.join(env, "a", "b", "c")
	f.ready(3)
	o := f.observe()
	o.awaitOwners("a", "b", "c")
	time.Sleep(pause) // the resyncs after a change of members have ended
	o.reset()
	return f, o, func(name string) { f.Expect(running[name].Terminate()).To(Succeed()) }
}

// BenchmarkGracefulStop stops one of three shards, which hands its objects over, and then one without handover, whose objects the
// sharder moves.
func BenchmarkGracefulStop(b *testing.B) {
	for name, env := range map[string][]string{"handover": nil, "sharder": {"HANDOVER=off"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f, o, stop := three(b, env...)
				began := time.Now()
				stop("a")
				took := o.awaitOwners("b", "c").Sub(began)
				main, child := o.totals(mains), o.totals(children)
				concurrency := moves
				if name == "handover" {
					concurrency = handovers
				}
				plain := f.plainWrites(main.moved+child.moved, concurrency)
				b.Logf("%d main objects and %d children moved in %s, as many plain writes took %s", main.moved, child.moved, took, plain)
				f.figure("graceful stop of one of three: time / plain writes", took.Seconds()/plain.Seconds(), "x-plain", "at most 1.3")
				f.figure("graceful stop: writes per moved object", float64(main.writes+child.writes)/float64(main.moved+child.moved), "writes/object", "exactly 1")
				f.figure("graceful stop: time without a live owner, mean", main.meanOwnerless.Seconds(), "s-ownerless", "")
				f.Expect(main.writes+child.writes).To(Equal(main.moved+child.moved), "one write for each moved object")
			}
		})
	}
}

// BenchmarkScaleOut adds a third shard to two.
func BenchmarkScaleOut(b *testing.B) {
	for b.Loop() {
		f := setUp(b)
		f.populate(0, *scaleOutObjects, "a", "b")
		f.sharder(5 * time.Minute)
		f.join(nil, "a", "b")
		f.ready(2)
		o := f.observe()
		o.awaitOwners("a", "b")
		time.Sleep(pause)
		o.reset()
		began := time.Now()
		f.join(nil, "c")
		joined := time.Now()
		took := o.awaitOwners("a", "b", "c").Sub(joined)
		main, child := o.totals(mains), o.totals(children)
		writes := main.writes + child.writes
		plain := f.plainWrites(writes, 2*handovers)
		b.Logf("the shard joined after %s; %d main objects and %d children moved in %s after that, as many plain writes took %s", joined.Sub(began), main.moved, child.moved, took, plain)
		f.figure("scale-out 2 to 3: time / plain writes", took.Seconds()/plain.Seconds(), "x-plain", "at most 1.5")
		f.figure("scale-out: writes per moved main object", float64(main.writes)/float64(main.moved), "writes/object", "exactly 2")
		f.figure("scale-out: share of main objects moved, of a third", float64(main.moved)/float64(main.objects)*3, "x-third", "at most 1.1")
		f.figure("scale-out: time in drain, mean", main.meanDrain.Seconds(), "s-drain", "under 2 [public: 10]")
		f.Expect(main.writes).To(Equal(2*main.moved), "a drain and a handover for each")
		f.Expect(main.movedTwice+child.movedTwice).To(BeZero(), "none moves twice")
	}
}

// BenchmarkScaleOutPlainContract adds a third shard to two that implement only the basic contract: they release an object by removing
// its labels, and the sharder moves its children.
func BenchmarkScaleOutPlainContract(b *testing.B) {
	for b.Loop() {
		f := setUp(b)
		f.populate(0, *scaleOutObjects, "a", "b")
		f.sharder(5 * time.Minute)
		f.members("a", "b")
		for _, shard := range []string{"a", "b", "c"} {
			f.release(shard)
		}
		o := f.observe()
		o.awaitOwners("a", "b")
		time.Sleep(pause)
		o.reset()
		f.keepLease(ringName, "c")
		f.Eventually(func() string { return f.holder("c") }).Should(Equal("c"))
		joined := time.Now()
		o.awaitOwners("a", "b", "c")
		main, child := o.moved[mains].Sub(joined), o.moved[children].Sub(joined)
		moved, followed := o.totals(mains), o.totals(children)
		b.Logf("%d main objects moved within %s, %d children within %s; mean time in drain %s", moved.moved, main, followed.moved, child, moved.meanDrain)
		f.figure("scale-out, plain contract: last child / last main object", child.Seconds()/main.Seconds(), "x-main", "at most 1.1 [1.9]")
		f.figure("scale-out, plain contract: last main object", main.Seconds(), "s-main", "[11.8; public 15.8, on an idle machine]")
		f.figure("scale-out, plain contract: last child", child.Seconds(), "s-child", "[22.3, on an idle machine]")
		plain := f.plainWrites(moved.writes+followed.writes, moves)
		f.figure("scale-out, plain contract: last child / as many plain writes", child.Seconds()/plain.Seconds(), "x-plain", "")
		f.Expect(moved.movedTwice+followed.movedTwice).To(BeZero(), "none moves twice")
	}
}

// release implements a shard that releases each object as soon as it is drained.
func (f *fixture) release(shard string) {
	f.b.Helper()
	const workers = 25
	drained := make(chan string, *scaleOutObjects)
	selector := shardingv1alpha1.LabelShard(ringName) + "=" + shard + "," + shardingv1alpha1.LabelDrain(ringName)
	client := f.metadata.Resource(mains).Namespace(f.Namespace)
	list, err := client.List(f.b.Context(), metav1.ListOptions{LabelSelector: selector})
	f.Expect(err).NotTo(HaveOccurred())
	(&observer{f: f}).follow(f.b.Context(), list.ResourceVersion, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = selector
		return client.Watch(ctx, options)
	}, func(event watch.Event) {
		if object, ok := event.Object.(*metav1.PartialObjectMetadata); ok && event.Type != watch.Deleted {
			drained <- object.Name
		}
	})
	both := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null,%q:null}}}`, shardingv1alpha1.LabelShard(ringName), shardingv1alpha1.LabelDrain(ringName))
	for range workers {
		go func() {
			for name := range drained {
				if _, err := client.Patch(f.b.Context(), name, types.MergePatchType, both, metav1.PatchOptions{}); err != nil && f.b.Context().Err() == nil {
					f.b.Errorf("releasing %s: %v", name, err)
				}
			}
		}()
	}
}

// BenchmarkRollingReplacement replaces three shards one after the other; each time a new one joins first.
func BenchmarkRollingReplacement(b *testing.B) {
	for b.Loop() {
		f, o, stop := three(b)
		for i, old := range []string{"a", "b", "c"} {
			f.join(nil, string("def"[i]))
			stop(old)
			f.Eventually(func() string { return f.holder(old) }).Should(BeEmpty())
		}
		o.awaitOwners("d", "e", "f")
		main := o.totals(mains)
		f.figure("rolling replacement: time without a live owner, mean", main.meanOwnerless.Seconds(), "s-ownerless", "under 0.5 [public: 20]")
		f.figure("rolling replacement: moves per object", float64(main.moves)/float64(main.objects), "moves/object", "at most 1.55 [public: 1.53]")
	}
}

// BenchmarkKilledShard kills one of three.
func BenchmarkKilledShard(b *testing.B) {
	for b.Loop() {
		f := setUp(b)
		f.populate(0, *objects, "a", "b", "c")
		f.sharder(5 * time.Minute)
		running := f.join(nil, "a", "b", "c")
		f.ready(3)
		o := f.observe()
		o.awaitOwners("a", "b", "c")
		time.Sleep(pause)
		o.reset()
		f.Expect(running["a"].Kill()).To(Succeed())
		lease, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(b.Context(), "a", metav1.GetOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
		took := o.owned("b", "c").Sub(lease.Spec.RenewTime.Time)
		main, child := o.totals(mains), o.totals(children)
		plain := f.plainWrites(main.moved+child.moved, moves)
		b.Logf("all owned %s after the last renewal of a lease of %s; as many plain writes as moves took %s", took, duration, plain)
		f.figure("killed shard: lease durations until all objects have a live owner, without the moves", (took-plain).Seconds()/duration.Seconds(), "leases", "at most 1.2 [public: 2]")
		f.Expect(main.writes+child.writes).To(Equal(main.moved+child.moved), "one write for each moved object")
	}
}
