//go:build soak

package soak_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
	"github.com/ringmaster-project/ringmaster/experiment/test/soak"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

var (
	duration = flag.Duration("duration", time.Hour, "how long to disturb the instances")
	seed     = flag.Uint64("seed", 0, "seed of the disturbances (default: random; it is printed)")
	websites = flag.Int("websites", 60, "number of Websites")
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{})
}

// instances is the number of instances, undisturbed the number of those that are never disturbed: one runs for the whole time and
// takes over objects from all others.
const instances, undisturbed = 3, 1

// TestSoak looks for growth and for violations in a run of any length.
func TestSoak(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	fmt.Fprintf(t.Output(), "seed %d, %s, %d Websites: repeat it with ARGS='-seed %d -duration %s -websites %d'\n", *seed, *duration, *websites, *seed, *duration, *websites)
	s := setUp(t)
	for i := range instances {
		s.join(i < undisturbed)
	}
	s.awaitAvailable()
	s.begin = time.Now()
	var busy, sampling sync.WaitGroup
	busy.Go(s.generateLoad)
	watched, stop := context.WithCancel(t.Context())
	sampling.Go(func() { s.sampleUntil(watched) })
	defer sampling.Wait()
	defer stop()

	for step := range soak.Steps(*seed, instances-undisturbed) {
		if !s.sleep(step.Rest) {
			break
		}
		s.disturb(step)
		s.awaitAvailable()
	}
	busy.Wait()
	stop()
	sampling.Wait()
	s.judge()
}

// generateLoad creates, changes and deletes Websites until the time is over.
func (s *setup) generateLoad() {
	const rate, every = 0.5, 20 * time.Second
	plan := scenario.Scenario{
		Duration: *duration, Load: scenario.Load{Initial: *websites, Create: rate, Delete: rate, ChangeEvery: every},
	}
	s.generator.Run(s.t.Context(), s.begin, plan.Plan(*seed))
}

// sleep waits, and reports whether there is time left.
func (s *setup) sleep(d time.Duration) bool {
	remaining := time.Until(s.begin.Add(*duration))
	time.Sleep(min(d, remaining))
	return d < remaining
}

// disturb executes a step, and replaces the instances that have exited.
func (s *setup) disturb(step soak.Step) {
	s.t.Helper()
	disturbed := slices.DeleteFunc(s.live(), func(m *instance) bool { return m.long })
	s.Expect(disturbed).To(haveLength(instances - undisturbed))
	victim := disturbed[step.Victim]
	fmt.Fprintf(s.t.Output(), "%s  %s of %s\n", s.elapsed(), step.Disturbance, victim.name)
	s.counts[step.Disturbance]++
	switch step.Disturbance {
	case soak.Roll:
		for _, m := range disturbed {
			m.ends.Store(true)
			s.Expect(m.Terminate()).To(succeed())
			s.Expect(m.Wait(s.limited())).To(succeed(), "%s:\n%s", m.name, m.Tail(10))
			s.join(false)
			s.awaitAvailable()
		}
	case soak.Kill:
		victim.ends.Store(true)
		s.Expect(victim.Kill()).To(succeed())
		s.join(false)
	case soak.Pause:
		victim.ends.Store(true)
		s.pause(victim, leaseDuration*2)
		s.Expect(victim.Wait(s.limited())).NotTo(succeed(), "%s has lost its Lease and must fail", victim.name)
		s.join(false)
	case soak.ShortPause:
		s.pause(victim, leaseDuration/5)
	}
}

// judge waits until nothing happens, and reports the result of the run.
func (s *setup) judge() {
	s.t.Helper()
	s.awaitAvailable()
	s.Eventually(s.generator.Waiting).Should(beZero(), "Websites that are not Ready")
	events := s.history()
	const margin = 20 * time.Second // for a busy machine
	report := oracle.Check(events, oracle.Options{
		Main: []schema.GroupKind{website.GroupKind()}, Controlled: controlled, Sharder: "sharder",
		Lag: margin / 2, Wake: margin / 2, Settle: margin,
		Unowned: 3*leaseDuration + 2*margin, Apart: margin,
	})
	rows := soak.Compare(s.samples)
	out := s.t.Output()
	fmt.Fprintf(out, "\n%s, seed %d, %d samples; disturbances: %v\n%d objects, %d reconciles\nwithout a live owner: %s\nseparated from their controllers: %s\n\n",
		s.elapsed(), *seed, len(s.samples), s.counts, report.Figures.Objects, report.Figures.Reconciles, report.Figures.Unowned, report.Figures.Apart)
	soak.Print(out, rows)
	const long = 15 * time.Minute // then everything has enough samples
	for _, r := range rows {
		if !r.Judged && *duration >= long {
			s.t.Errorf("%s: too few samples to judge %s", r.Subject, r.Name)
		}
		if r.Grown {
			s.t.Errorf("%s: %s grew from %.1f to %.1f %s", r.Subject, r.Name, r.First, r.Last, r.Unit)
		}
	}
	const most = 10
	for i, v := range report.Violations {
		if i == most {
			s.t.Errorf("%d violations in all", len(report.Violations))
			break
		}
		s.t.Error(v)
	}
	for _, failure := range s.generator.Failures() {
		s.t.Errorf("a user's request failed: %s", failure)
	}
	for _, exited := range s.exited() {
		s.t.Error(exited)
	}
}
