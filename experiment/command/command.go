// Package command is the command line of experiments.
//
// It promises that its exit code shows whether the result can be used: it fails if a run is invalid or incomplete, or an objective
// does not hold.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// options are the flags.
type options struct {
	setups      []string
	instances   []int
	objects     []int
	every       time.Duration
	workers     int
	workTime    time.Duration
	scale       float64
	perInstance bool
	duration    time.Duration
	repeat      int
	limits      run.Limits
	seed        uint64
	projects    int
	interval    time.Duration
	out         string
	summary     string
	kubeconfig  string
	host        string
	assets      string
	programs    string
	quiet       bool

	// given reports whether a flag is set: the zero value stands for the scenario's default, unless it is.
	given          func(flag string) bool
	stdout, errOut io.Writer
}

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "experiment SCENARIO",
		Short: "Load the sample operator, measure it, and write a report with verdicts",
		Long: `Run the sample operator in one or several setups, one after the other, create, change and
delete Websites as the scenario plans, measure all processes, and write a report:
report.html, which is self-contained, the same as report.md with pictures, the results as
JSON, and the measurements as CSV.

Scenarios:
` + scenarios() + `
Setups:

  lead        one instance reconciles, the others are standbys
  in-process  all instances reconcile; one of them also runs the sharder
  external    all instances reconcile; the sharder is a separate program

A scenario has the rates of the original evaluation. --scale multiplies them, for example for
a small machine, and --duration shortens it. The same --seed plans the same operations; run N
of --repeat uses the seed plus N-1. The report shows the median and the range of all runs.

Operations are due at planned times, whether or not earlier ones have returned, and every
duration counts from the due time. A run is invalid if the load generator falls behind, or
the machine is saturated, or other processes use it: --max-lateness, --max-unfinished,
--max-cpu and --max-other-cpu are the limits.

Without --kubeconfig it starts a control plane on this machine. With it, it installs the
CRDs and roles of the sample operator in that cluster, whose API server must reach this
machine at --host for the external sharder's webhook.

Ctrl-C ends it early, with a report about what has run. The exit code is 3 if an objective
does not hold, and 1 if a run is invalid, interrupted, or not everything was executed and
measured.`,
		Example: `  # Compare the setups, 15 minutes for each
  ringmaster experiment basic --setups lead,in-process,external --scale 0.2

  # A short test
  ringmaster experiment basic --scale 0.1 --duration 2m

  # Capacity by number of instances, with a reconciler that waits for a remote API, three runs each
  ringmaster experiment scale-out --instances 1,5 --repeat 3 --work-time 500ms --objects 500 --change-every 3m --scale 0.1 --scale-per-instance --projects 50`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("got %d scenarios, want one: %s", len(args), strings.Join(names(), ", "))
			}
			return nil
		},
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "ringmaster experiment"},
		RunE: func(command *cobra.Command, args []string) error {
			o.stdout, o.errOut = command.OutOrStdout(), command.ErrOrStderr()
			o.given = command.Flags().Changed
			return o.run(command.Context(), args[0])
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee 'ringmaster experiment --help'", err)
	})
	flags := command.Flags()
	flags.StringSliceVar(&o.setups, "setups", []string{string(fleet.External)}, "setups to run, one after the other: lead, in-process, external")
	flags.IntSliceVar(&o.instances, "instances", nil, "numbers of instances to run with, one after the other (default: the scenario's)")
	flags.IntSliceVar(&o.objects, "objects", nil, "numbers of initial Websites, one after the other (default: the scenario's)")
	flags.DurationVar(&o.every, "change-every", 0, "interval at which each Website is changed (default: the scenario's)")
	flags.IntVar(&o.workers, "workers", 0, "workers of each instance (default: the scenario's)")
	flags.DurationVar(&o.workTime, "work-time", 0, "how long each reconcile waits, as for a remote API")
	flags.Float64Var(&o.scale, "scale", 1, "factor for the rates and the initial Websites of the scenario")
	flags.BoolVar(&o.perInstance, "scale-per-instance", false, "multiply --scale and --objects by the number of instances")
	flags.DurationVar(&o.duration, "duration", 0, "duration of each run (default: the scenario's)")
	flags.IntVar(&o.repeat, "repeat", 1, "number of runs of each configuration; the report has their median and range")
	limits := run.DefaultLimits()
	flags.DurationVar(&o.limits.Lateness, "max-lateness", limits.Lateness, "how late the p99 of operations may start in a valid run")
	flags.Float64Var(&o.limits.Unfinished, "max-unfinished", limits.Unfinished, "share of operations that may not end in a valid run")
	flags.Float64Var(&o.limits.CPU, "max-cpu", limits.CPU, "share of the machine's CPU time that a valid run may use, on average or at the capacity of a ramp; 1 disables the limit")
	flags.Float64Var(&o.limits.Others, "max-other-cpu", limits.Others, "share of the machine's CPU time that other processes may use in a valid run; 1 disables the limit")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of all random choices")
	flags.IntVar(&o.projects, "projects", 10, "number of namespaces for Websites")
	flags.DurationVar(&o.interval, "interval", 5*time.Second, "time between two measurements")
	flags.StringVar(&o.out, "out", "", "folder for the report (default: experiment-SCENARIO-TIME in this folder)")
	flags.StringVar(&o.summary, "summary", "", "another folder, for a small report without machine-specific paths, to commit to a repository")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to run on (default: start a control plane)")
	flags.StringVar(&o.host, "host", "", "address at which the API server of --kubeconfig reaches this machine, for the external sharder")
	flags.StringVar(&o.assets, "assets", "", "folder with the programs of Kubernetes (default: 'kubernetes' beside this program)")
	flags.StringVar(&o.programs, "programs", "", "folder with the sharder and the sample operator (default: beside this program)")
	flags.BoolVar(&o.quiet, "quiet", false, "do not report progress")
	return command
}

func names() []string {
	var all []string
	for _, s := range scenario.All() {
		all = append(all, s.Name)
	}
	return all
}

func scenarios() string {
	var b strings.Builder
	for _, s := range scenario.All() {
		fmt.Fprintf(&b, "\n  %-15s %s (%s)", s.Name, s.About, s.Duration)
	}
	return b.String() + "\n"
}

// plannedRun is a run of an experiment.
type plannedRun struct {
	setup fleet.Setup
	// repeat is its number among those of the same configuration, 0 if there is only one.
	repeat int
	scenario.Scenario
}

func (p plannedRun) String() string {
	text := fmt.Sprintf("%s, %d instances", p.setup, p.Instances)
	if p.Instances == 1 {
		text = fmt.Sprintf("%s, 1 instance", p.setup)
	}
	if p.Load.Initial > 0 {
		text += fmt.Sprintf(", %d Websites", p.Load.Initial)
	}
	if p.repeat > 0 {
		text += fmt.Sprintf(", run %d", p.repeat)
	}
	return text
}

// file returns the name of the run's files without extension.
func (p plannedRun) file() string {
	name := fmt.Sprintf("%s-%d-%d", p.setup, p.Instances, p.Load.Initial)
	if p.repeat > 0 {
		name += fmt.Sprintf("-run%d", p.repeat)
	}
	return name
}

// seed returns the seed of the run: repetitions differ in what is random.
func (p plannedRun) seed(first uint64) uint64 { return first + uint64(max(0, p.repeat-1)) }

// plan returns all runs, in order. All configurations run before the first one repeats, so that a change of the machine over time
// affects all of them alike.
func (o *options) plan(name string) ([]plannedRun, error) {
	once, err := o.configurations(name)
	if err != nil || o.repeat == 1 {
		return once, err
	}
	var all []plannedRun
	for n := range o.repeat {
		for _, p := range once {
			p.repeat = n + 1
			all = append(all, p)
		}
	}
	return all, nil
}

// configurations returns a run of each configuration.
func (o *options) configurations(name string) ([]plannedRun, error) {
	found, err := scenario.Find(name)
	if err != nil {
		return nil, err
	}
	if err := o.validate(found); err != nil {
		return nil, err
	}
	if o.duration != 0 {
		found = found.Lasting(o.duration)
	}
	if o.workers > 0 {
		found.Workers = o.workers
	}
	instances := o.instances
	if len(instances) == 0 {
		instances = found.Series
	}
	if len(instances) == 0 {
		instances = []int{found.Instances}
	}
	var all []plannedRun
	for _, name := range o.setups {
		setup, err := fleet.ParseSetup(name)
		if err != nil {
			return nil, err
		}
		for _, n := range instances {
			for _, with := range o.sized(found.With(n)) {
				if err := with.Validate(); err != nil {
					return nil, err
				}
				next := plannedRun{setup: setup, Scenario: with}
				if slices.ContainsFunc(all, func(other plannedRun) bool { return other.file() == next.file() }) {
					return nil, fmt.Errorf("%s is listed twice: use --repeat to run it several times", next)
				}
				all = append(all, next)
			}
		}
	}
	return all, nil
}

// validate checks the flags.
func (o *options) validate(planned scenario.Scenario) error {
	const (
		longest = 10 * time.Second // samples that are older than 20 s are stale
		largest = 100
	)
	few := slices.IndexFunc(o.objects, func(n int) bool { return n < 1 })
	switch {
	case !(o.scale > 0) || o.scale > largest:
		return fmt.Errorf("--scale %g: choose a value above 0 and up to %d", o.scale, largest)
	case few >= 0:
		return fmt.Errorf("--objects %d: choose at least 1", o.objects[few])
	case o.workers < 1 && o.given("workers"):
		return fmt.Errorf("--workers %d: choose at least 1, or omit the flag", o.workers)
	case o.duration == 0 && o.given("duration"):
		return errors.New("--duration 0s is too short: choose at least 15s, or omit the flag")
	case o.interval < time.Second:
		return fmt.Errorf("--interval %s: choose at least 1s", o.interval)
	case o.interval > longest:
		return fmt.Errorf("--interval %s: choose at most %s", o.interval, longest)
	case o.projects < 1:
		return fmt.Errorf("--projects %d: choose at least 1", o.projects)
	case o.repeat < 1:
		return fmt.Errorf("--repeat %d: choose at least 1", o.repeat)
	case o.limits.Lateness <= 0:
		return fmt.Errorf("--max-lateness %s: choose more than 0", o.limits.Lateness)
	case !(o.limits.Unfinished >= 0) || o.limits.Unfinished >= 1:
		return fmt.Errorf("--max-unfinished %g: choose 0 or more, and less than 1", o.limits.Unfinished)
	case !(o.limits.CPU > 0) || o.limits.CPU > 1:
		return fmt.Errorf("--max-cpu %g: choose a value above 0 and up to 1", o.limits.CPU)
	case !(o.limits.Others > 0) || o.limits.Others > 1:
		return fmt.Errorf("--max-other-cpu %g: choose a value above 0 and up to 1", o.limits.Others)
	case o.every <= 0 && o.given("change-every"):
		return fmt.Errorf("--change-every %s: choose more than 0, or omit the flag", o.every)
	case o.workTime < 0:
		return fmt.Errorf("--work-time %s: choose 0 or more", o.workTime)
	case len(o.setups) == 0:
		return fmt.Errorf("--setups is empty (available: %s, %s, %s)", fleet.Lead, fleet.InProcess, fleet.External)
	case planned.Restarts() && o.kubeconfig != "":
		return fmt.Errorf("scenario %s restarts the API server, which is not possible in an existing cluster: run it without --kubeconfig", planned.Name)
	case o.host == "" && o.kubeconfig != "" && slices.Contains(o.setups, string(fleet.External)):
		return errors.New("--host is missing: the API server of --kubeconfig must reach the sharder, which runs on this machine; " +
			"set it to the address of this machine, 127.0.0.1 if the API server runs here too")
	case o.host != "" && o.kubeconfig == "":
		return errors.New("--host requires --kubeconfig")
	case o.kubeconfig != "":
		_, err := o.access()
		return err
	}
	return nil
}

// sized returns the scenario with each number of initial objects.
func (o *options) sized(s scenario.Scenario) []scenario.Scenario {
	scale := o.scale
	if o.perInstance {
		scale *= float64(s.Instances)
	}
	s = s.Scaled(scale)
	all := []scenario.Scenario{s}
	if len(o.objects) > 0 {
		all = nil
	}
	for _, n := range o.objects {
		if o.perInstance {
			n *= s.Instances
		}
		all = append(all, s.Holding(n))
	}
	for i := range all {
		if o.every > 0 {
			all[i].Load.ChangeEvery = o.every
		}
	}
	return all
}

func (o *options) run(ctx context.Context, name string) error {
	plan, err := o.plan(name)
	if err != nil {
		return err
	}
	if err := o.find(plan); err != nil {
		return err
	}
	if o.out == "" {
		o.out = fmt.Sprintf("experiment-%s-%s", name, time.Now().Format("20060102-150405"))
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if entries, err := os.ReadDir(o.out); err == nil && len(entries) > 0 {
		return fmt.Errorf("folder %s is not empty: choose another one with --out", o.out)
	}
	if err := os.MkdirAll(filepath.Join(o.out, "samples"), 0o755); err != nil {
		return fmt.Errorf("creating a folder for the report: %w", err)
	}
	var (
		results []*run.Result
		left    error // the objects that remain in an existing cluster
	)
	for i, next := range plan {
		var after time.Duration
		for _, later := range plan[i+1:] {
			after += later.Duration
		}
		result, err := o.once(ctx, next, fmt.Sprintf("%d of %d, %s", i+1, len(plan), next), after)
		if result != nil {
			results = append(results, result)
		}
		if ctx.Err() != nil {
			if errors.Is(err, run.ErrLeft) {
				left = err
			}
			break
		}
		if err != nil {
			return errors.Join(err, o.finish(name, results, true))
		}
	}
	if err := o.finish(name, results, len(results) < len(plan) || ctx.Err() != nil); err != nil || left != nil {
		return errors.Join(left, err)
	}
	return conclude(results, ctx.Err() != nil)
}

// finish writes the report, if there are results.
func (o *options) finish(name string, results []*run.Result, interrupted bool) error {
	if len(results) == 0 {
		_ = os.Remove(filepath.Join(o.out, "samples"))
		_ = os.Remove(o.out) // only if it is empty
		return nil
	}
	return o.report(name, results, interrupted)
}
