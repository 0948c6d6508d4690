// Package command is the command line of experiments.
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
	setups     []string
	instances  []int
	objects    []int
	every      time.Duration
	workers    int
	workTime   time.Duration
	scale      float64
	perOne     bool
	duration   time.Duration
	seed       uint64
	projects   int
	interval   time.Duration
	out        string
	kubeconfig string
	host       string
	assets     string
	programs   string
	quiet      bool

	// given tells whether a flag was: nothing stands for the scenario's choice, unless it was.
	given          func(flag string) bool
	stdout, errOut io.Writer
}

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "experiment SCENARIO",
		Short: "Load the sample operator, measure it, and write a report with verdicts",
		Long: `Runs the sample operator in one or several setups, one after the other, lets users make,
change and delete Websites as the scenario says, measures all processes, and writes a
report: report.html, which needs nothing else, the same as report.md with pictures, the
results as JSON, and the measurements as CSV.

Scenarios:
` + scenarios() + `
Setups:

  lead        one instance works, the others wait
  in-process  all work; one of them is the sharder too
  external    all work; the sharder is a program of its own

A scenario has the rates of the original evaluation. --scale makes them smaller for a small
machine, --duration makes it shorter. The same --seed does the same again. If the users
cannot keep the promised rates, the report says that the machine was the limit.

It runs on a control plane of its own, on this machine, unless --kubeconfig names a cluster:
there it installs the sample operator's kinds and roles, and its API server has to reach this
machine at --host for the external sharder's webhook.

Ctrl-C ends it early, with a report about what has run. It fails if an objective does not
hold, or not all was done and measured, so that a script can tell.`,
		Example: `  # which setup needs what? About 15 minutes for each
  ringmaster experiment basic --setups lead,in-process,external --scale 0.2

  # a first look, in a few minutes
  ringmaster experiment basic --scale 0.1 --duration 2m

  # what one more instance is worth, with a reconciler that waits for somebody else most of the time
  ringmaster experiment scale-out --work-time 500ms --objects 450 --change-every 3m --scale 0.04 --scale-per-instance --projects 50`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one SCENARIO: %s", strings.Join(names(), ", "))
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
	flags.IntSliceVar(&o.objects, "objects", nil, "numbers of Websites to begin with, one after the other (default: the scenario's)")
	flags.DurationVar(&o.every, "change-every", 0, "how often each Website is changed (default: the scenario's)")
	flags.IntVar(&o.workers, "workers", 0, "workers of each instance (default: the scenario's)")
	flags.DurationVar(&o.workTime, "work-time", 0, "how long each reconcile waits, as for an API far away")
	flags.Float64Var(&o.scale, "scale", 1, "how much of the original load")
	flags.BoolVar(&o.perOne, "scale-per-instance", false, "--scale and --objects are for each instance: two have twice the load of one")
	flags.DurationVar(&o.duration, "duration", 0, "how long each run lasts (default: the scenario's)")
	flags.Uint64Var(&o.seed, "seed", 1, "what is done by chance is the same with the same seed")
	flags.IntVar(&o.projects, "projects", 10, "namespaces of the users")
	flags.DurationVar(&o.interval, "interval", 5*time.Second, "how often to measure")
	flags.StringVar(&o.out, "out", "", "folder for the report (default: experiment-SCENARIO-TIME in this folder)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "cluster to run on (default: a control plane of its own)")
	flags.StringVar(&o.host, "host", "", "with --kubeconfig and an external sharder: this machine as the cluster's API server reaches it")
	flags.StringVar(&o.assets, "assets", "", "folder with Kubernetes' programs (default: 'kubernetes' beside this program)")
	flags.StringVar(&o.programs, "programs", "", "folder with the sharder and the sample operator (default: beside this program)")
	flags.BoolVar(&o.quiet, "quiet", false, "do not tell how far it is")
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

// one is a run that is to be made.
type one struct {
	setup fleet.Setup
	scenario.Scenario
}

func (o one) String() string {
	text := fmt.Sprintf("%s, %d instances", o.setup, o.Instances)
	if o.Instances == 1 {
		text = fmt.Sprintf("%s, 1 instance", o.setup)
	}
	if o.Load.Initial > 0 {
		text += fmt.Sprintf(", %d Websites", o.Load.Initial)
	}
	return text
}

// file is the name of its files.
func (o one) file() string { return fmt.Sprintf("%s-%d-%d", o.setup, o.Instances, o.Load.Initial) }

// plan is what is to be run, in order.
func (o *options) plan(name string) ([]one, error) {
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
	var all []one
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
				if slices.ContainsFunc(all, func(other one) bool { return other.file() == (one{setup, with}).file() }) {
					return nil, fmt.Errorf("%s is asked for twice", one{setup, with})
				}
				all = append(all, one{setup, with})
			}
		}
	}
	return all, nil
}

// validate tells which flags make no sense.
func (o *options) validate(of scenario.Scenario) error {
	const (
		longest = 10 * time.Second // what is older than 20 s does not hold any more
		largest = 100
	)
	few := slices.IndexFunc(o.objects, func(n int) bool { return n < 1 })
	switch {
	case !(o.scale > 0) || o.scale > largest:
		return fmt.Errorf("--scale %g: choose more than 0, and %d at most", o.scale, largest)
	case few >= 0:
		return fmt.Errorf("--objects %d: choose 1 at least", o.objects[few])
	case o.workers < 1 && o.given("workers"):
		return fmt.Errorf("--workers %d: choose 1 at least, or leave it to the scenario", o.workers)
	case o.duration == 0 && o.given("duration"):
		return errors.New("--duration 0s is too short: leave it to the scenario")
	case o.interval < time.Second:
		return fmt.Errorf("--interval %s: choose a second at least", o.interval)
	case o.interval > longest:
		return fmt.Errorf("--interval %s: choose %s at most", o.interval, longest)
	case o.projects < 1:
		return fmt.Errorf("--projects %d: choose 1 at least", o.projects)
	case o.every <= 0 && o.given("change-every"):
		return fmt.Errorf("--change-every %s: choose more than 0, or leave it to the scenario", o.every)
	case o.workTime < 0:
		return fmt.Errorf("--work-time %s: choose 0 or more", o.workTime)
	case len(o.setups) == 0:
		return fmt.Errorf("--setups names none; there are: %v", fleet.Setups())
	case of.Restarts() && o.kubeconfig != "":
		return fmt.Errorf("%s restarts the API server, and that of --kubeconfig is not ours: run it without --kubeconfig", of.Name)
	case o.host == "" && o.kubeconfig != "" && slices.Contains(o.setups, string(fleet.External)):
		return errors.New("--host is missing: the API server of --kubeconfig has to reach the sharder, which runs on this machine. " +
			"Name the address at which it does, 127.0.0.1 if it runs here too")
	case o.host != "" && o.kubeconfig == "":
		return errors.New("--host is for the cluster of --kubeconfig, which is missing")
	case o.kubeconfig != "":
		_, err := o.access()
		return err
	}
	return nil
}

// sized are the scenario with the numbers of objects that were asked for.
func (o *options) sized(s scenario.Scenario) []scenario.Scenario {
	scale := o.scale
	if o.perOne {
		scale *= float64(s.Instances)
	}
	s = s.Scaled(scale)
	all := []scenario.Scenario{s}
	if len(o.objects) > 0 {
		all = nil
	}
	for _, n := range o.objects {
		if o.perOne {
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

// errVerdict is when an objective does not hold.
var errVerdict = errors.New("not all objectives hold")

// errCut is when somebody has ended it.
var errCut = errors.New("it was ended before its time: the report is about what has run")

// errIncomplete is when not all was done that the scenario says, or not all was measured.
var errIncomplete = errors.New("not all could be done or measured")

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
		return fmt.Errorf("there is something in %s already: name another folder with --out", o.out)
	}
	if err := os.MkdirAll(filepath.Join(o.out, "samples"), 0o755); err != nil {
		return fmt.Errorf("making a folder for the report: %w", err)
	}
	var (
		results []*run.Result
		left    error // what was left in somebody's cluster
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
	switch err := o.finish(name, results, len(results) < len(plan) || ctx.Err() != nil); {
	case err != nil || left != nil:
		return errors.Join(left, err)
	case len(results) == 0:
		return errors.New("it was ended before anything could be measured")
	case slices.ContainsFunc(results, func(r *run.Result) bool { return !r.Complete() }):
		return errIncomplete
	case slices.ContainsFunc(results, (*run.Result).Failed):
		return errVerdict
	case ctx.Err() != nil:
		return errCut
	}
	return nil
}

// finish writes the report, if there is anything to tell.
func (o *options) finish(name string, results []*run.Result, cut bool) error {
	if len(results) == 0 {
		_ = os.Remove(filepath.Join(o.out, "samples"))
		_ = os.Remove(o.out) // nothing is in it, or it stays
		return nil
	}
	return o.report(name, results, cut)
}
