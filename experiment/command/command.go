// Package command is the command line of experiments.
package command

import (
	"context"
	"errors"
	"fmt"
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
	workers    int
	workTime   time.Duration
	scale      float64
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
hold, so that a script can tell.`,
		Example: `  # which setup needs what? About 15 minutes for each
  ringmaster experiment basic --setups lead,in-process,external --scale 0.2

  # a first look, in a few minutes
  ringmaster experiment basic --scale 0.1 --duration 2m

  # what one more instance is worth, with a reconciler that waits for somebody else most of the time
  ringmaster experiment scale-out --instances 1,2,3,4,5 --work-time 200ms --scale 0.2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one SCENARIO: %s", strings.Join(names(), ", "))
			}
			return nil
		},
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args[0]) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&o.setups, "setups", []string{string(fleet.External)}, "setups to run, one after the other: lead, in-process, external")
	flags.IntSliceVar(&o.instances, "instances", nil, "numbers of instances to run with, one after the other (default: the scenario's)")
	flags.IntVar(&o.workers, "workers", 0, "workers of each instance (default: the scenario's)")
	flags.DurationVar(&o.workTime, "work-time", 0, "how long each reconcile waits, as for an API far away")
	flags.Float64Var(&o.scale, "scale", 1, "how much of the original load")
	flags.DurationVar(&o.duration, "duration", 0, "how long each run lasts (default: the scenario's)")
	flags.Uint64Var(&o.seed, "seed", 1, "what is done by chance is the same with the same seed")
	flags.IntVar(&o.projects, "projects", 10, "namespaces of the users")
	flags.DurationVar(&o.interval, "interval", 5*time.Second, "how often to measure")
	flags.StringVar(&o.out, "out", "", "folder for the report (default: experiment-SCENARIO-TIME in this folder)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "cluster to run on (default: a control plane of its own)")
	flags.StringVar(&o.host, "host", "127.0.0.1", "this machine as the cluster's API server reaches it")
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

// plan is what is to be run, in order.
func (o *options) plan(name string) ([]one, error) {
	found, err := scenario.Find(name)
	if err != nil {
		return nil, err
	}
	if o.scale <= 0 {
		return nil, fmt.Errorf("--scale %g is no load: choose more than 0", o.scale)
	}
	if found = found.Scaled(o.scale); o.duration != 0 {
		found = found.Lasting(o.duration)
	}
	if o.workers > 0 {
		found.Workers = o.workers
	}
	instances := o.instances
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
			with := found.With(n)
			if err := with.Validate(); err != nil {
				return nil, err
			}
			all = append(all, one{setup, with})
		}
	}
	if o.interval < time.Second || o.projects < 1 || o.workTime < 0 {
		return nil, errors.New("--interval is a second at least, --projects 1, --work-time 0")
	}
	return all, nil
}

// errVerdict is when an objective does not hold.
var errVerdict = errors.New("not all objectives hold")

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
	var results []*run.Result
	for i, next := range plan {
		result, err := o.once(ctx, next, fmt.Sprintf("%d of %d", i+1, len(plan)))
		if err != nil && (ctx.Err() == nil || result == nil) {
			if len(results) > 0 {
				err = errors.Join(err, o.report(name, results, true))
			}
			return err
		}
		results = append(results, result)
		if ctx.Err() != nil {
			break
		}
	}
	if err := o.report(name, results, len(results) < len(plan) || ctx.Err() != nil); err != nil {
		return err
	}
	if slices.ContainsFunc(results, func(r *run.Result) bool { return !r.Holds() && r.Capacity == nil }) {
		return errVerdict
	}
	return nil
}
