package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ringmaster-project/ringmaster/internal/stats"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

var (
	few    = flag.Int("few", 1000, "number of main objects, with a child each, for the first measurement of memory")
	many   = flag.Int("many", 50000, "number of main objects for the second one")
	silent = flag.Duration("silent", 5*time.Minute, "how long to observe writes after convergence")
)

// members holds Leases in this process, without any controller.
func (f *fixture) members(names ...string) {
	f.b.Helper()
	config := rest.CopyConfig(f.Config)
	config.QPS = -1
	clientset, err := kubernetes.NewForConfig(config)
	f.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(f.b.Context())
	f.b.Cleanup(cancel)
	for _, name := range names {
		lease := &shard.Lease{Client: clientset.CoordinationV1(), Ring: ringName, Namespace: f.Namespace, Name: name}
		go func() { _ = lease.Run(ctx, func(ctx context.Context) { <-ctx.Done() }) }()
	}
	f.ready(len(names))
}

// keepLease makes a shard a member of a ring until the benchmark ends. Its Lease may exist.
func (f *fixture) keepLease(ring, name string) {
	lease := &shard.Lease{Client: f.Clientset.CoordinationV1(), Ring: ring, Namespace: f.Namespace, Name: name}
	ctx, cancel := context.WithCancel(f.b.Context())
	f.b.Cleanup(cancel)
	go func() { _ = lease.Run(ctx, func(ctx context.Context) { <-ctx.Done() }) }()
}

// BenchmarkCreate compares the creation of objects in a namespace that the ring selects with that in another one, alternately.
func BenchmarkCreate(b *testing.B) {
	const workers, each = 16, 150
	for b.Loop() {
		f := setUp(b)
		f.sharder(5 * time.Minute)
		f.members("a", "b", "c")
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		f.Expect(f.Client.Create(b.Context(), other)).To(Succeed())
		f.Eventually(func() map[string]string {
			probe, err := f.create(f.Namespace, "probe-"+strconv.FormatInt(time.Now().UnixNano(), 36))
			f.Expect(err).NotTo(HaveOccurred())
			return probe.Labels
		}).
			ShouldNot(BeEmpty(), "the webhook is called")
		with, without := make([]time.Duration, workers*each), make([]time.Duration, workers*each)
		f.parallel(workers*each, workers, func(i int) error {
			for _, turn := range []struct {
				namespace string
				took      []time.Duration
			}{{f.Namespace, with}, {other.Name, without}} {
				began := time.Now()
				if _, err := f.create(turn.namespace, fmt.Sprintf("created-%d", i)); err != nil {
					return err
				}
				turn.took[i] = time.Since(began)
			}
			return nil
		})
		b.Logf("p50 with %s, without %s; p99 with %s, without %s", stats.Quantile(with, 0.5), stats.Quantile(without, 0.5), stats.Quantile(with, 0.99), stats.Quantile(without, 0.99))
		f.figure("create with the ring's webhook / without it, median", stats.Quantile(with, 0.5).Seconds()/stats.Quantile(without, 0.5).Seconds(), "x-plain", "at most 1.4 [public: 1.75]")
	}
}

func (f *fixture) create(namespace, name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return f.Clientset.CoreV1().ConfigMaps(namespace).Create(context.Background(), object, metav1.CreateOptions{})
}

// BenchmarkMemory compares the sharder's peak memory during resyncs with few and with many objects.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		f := setUp(b)
		before := f.watches()
		peak, existing := map[int]float64{}, 0
		for _, n := range []int{*few, *many} {
			f.populate(existing, n, "a", "b", "c")
			existing = n
			sharder := f.sharder(5 * time.Second)
			if n == *few {
				f.members("a", "b", "c")
			}
			f.ready(3)
			time.Sleep(time.Minute) // several resyncs
			memory := used(b, sharder.PID())
			peak[n] = memory.Peak / mebibyte
			b.Logf("%d main objects with a child each: at most %.1f MiB resident, %.1f MiB at the end", n, peak[n], memory.Resident/mebibyte)
			f.Expect(f.watches()).To(Equal(before), "the sharder does not watch sharded objects")
			f.Expect(sharder.Stop(b.Context())).To(Succeed())
		}
		f.figure(fmt.Sprintf("memory with %d objects / with %d, peak during resyncs", *many, *few), peak[*many]/peak[*few], "x-few", "at most 1.15 [public: 4.2]")
		f.figure(fmt.Sprintf("memory with %d objects and as many children", *many), peak[*many], "MiB", "at most 60")
	}
}

const mebibyte = 1 << 20

// watches returns the watches on sharded objects in the API server's metrics.
func (f *fixture) watches() []string {
	f.b.Helper()
	metrics, err := f.Clientset.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	f.Expect(err).NotTo(HaveOccurred())
	var found []string
	scanner := bufio.NewScanner(strings.NewReader(string(metrics)))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `verb="WATCH"`) &&
			(strings.Contains(line, `resource="configmaps"`) || strings.Contains(line, `resource="secrets"`)) {
			found = append(found, line)
		}
	}
	slices.Sort(found)
	return found
}

// BenchmarkSilence counts writes after convergence. The names of the shards are such that tokens of the form name and number without
// a separator collide.
func BenchmarkSilence(b *testing.B) {
	for b.Loop() {
		f := setUp(b)
		names := make([]string, 20)
		for i := range names {
			names[i] = fmt.Sprintf("shard-%d", i)
		}
		f.populate(0, 1000, names...)
		f.sharder(*silent * 2 / 5)
		f.members(names...)
		o := f.observe()
		o.awaitOwners(names...)
		time.Sleep(pause)
		o.reset()
		time.Sleep(*silent)
		writes := o.totals(mains).writes + o.totals(children).writes
		f.figure(fmt.Sprintf("writes in %s with two resyncs after convergence", *silent), float64(writes), "writes", "exactly 0 [public: 86 in 100 s]")
		f.Expect(writes).To(BeZero())
	}
}
