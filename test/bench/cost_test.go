package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
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

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

var (
	few    = flag.Int("few", 1000, "how many main objects memory is measured with, with a child each")
	many   = flag.Int("many", 50000, "how many main objects that is compared with")
	silent = flag.Duration("silent", 5*time.Minute, "how long to look whether anything is written after convergence")
)

// members keep Leases and do nothing else, in this process.
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

// keepLease makes a shard a member of a ring until the benchmark ends. Its Lease may be there already.
func (f *fixture) keepLease(ring, name string) {
	lease := &shard.Lease{Client: f.Clientset.CoordinationV1(), Ring: ring, Namespace: f.Namespace, Name: name}
	ctx, cancel := context.WithCancel(f.b.Context())
	f.b.Cleanup(cancel)
	go func() { _ = lease.Run(ctx, func(ctx context.Context) { <-ctx.Done() }) }()
}

// BenchmarkCreate compares the creation of objects in a namespace that the ring selects with that in
// another one, in turns.
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
		b.Logf("median with %s, without %s; 99th of 100 with %s, without %s", quantile(with, 0.5), quantile(without, 0.5), quantile(with, 0.99), quantile(without, 0.99))
		f.figure("create with the ring's webhook / without it, median", quantile(with, 0.5).Seconds()/quantile(without, 0.5).Seconds(), "x-plain", "at most 1.4 [public: 1.75]")
	}
}

func (f *fixture) create(namespace, name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return f.Clientset.CoreV1().ConfigMaps(namespace).Create(context.Background(), object, metav1.CreateOptions{})
}

func quantile(took []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[int(float64(len(sorted)-1)*q)]
}

// BenchmarkMemory compares the sharder's memory with few and with many objects, syncs included.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		f := setUp(b)
		before := f.watches()
		peak, there := map[int]float64{}, 0
		for _, n := range []int{*few, *many} {
			f.populate(there, n, "a", "b", "c")
			there = n
			sharder := f.sharder(5 * time.Second)
			if n == *few {
				f.members("a", "b", "c")
			}
			f.ready(3)
			time.Sleep(time.Minute) // some syncs
			peak[n] = f.peak(sharder)
			b.Logf("%d main objects with a child each: at most %.1f MiB resident, %.1f MiB now", n, peak[n], f.status(sharder, "VmRSS"))
			f.Expect(f.watches()).To(Equal(before), "the sharder does not watch sharded objects")
			f.Expect(sharder.Stop(b.Context())).To(Succeed())
		}
		f.figure(fmt.Sprintf("memory with %d objects / with %d, peak during syncs included", *many, *few), peak[*many]/peak[*few], "x-few", "at most 1.15 [public: 4.2]")
		f.figure(fmt.Sprintf("memory with %d objects and as many children", *many), peak[*many], "MiB", "at most 60")
	}
}

func (f *fixture) peak(p *rig.Running) float64 { return f.status(p, "VmHWM") }

// status reads a line of /proc/<pid>/status, in MiB.
func (f *fixture) status(p *rig.Running, field string) float64 {
	f.b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	f.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(content)) {
		if parts := strings.Fields(line); len(parts) > 1 && parts[0] == field+":" {
			kib, err := strconv.Atoi(parts[1])
			f.Expect(err).NotTo(HaveOccurred())
			return float64(kib) / 1024
		}
	}
	f.b.Fatalf("no %s", field)
	return 0
}

// watches are the watches on sharded objects that the API server counts.
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

// BenchmarkSilence counts writes after convergence, with names of shards whose tokens collide where
// tokens are made carelessly.
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
		o.settled(names...)
		time.Sleep(pause)
		o.reset()
		time.Sleep(*silent)
		writes := o.totals(mains).writes + o.totals(children).writes
		f.figure(fmt.Sprintf("writes in %s with two syncs after convergence", *silent), float64(writes), "writes", "exactly 0 [public: 86 in 100 s]")
		f.Expect(writes).To(BeZero())
	}
}
